-- Ask the open turn to stop and cancel the waiting inputs. A suspended turn's questions are cancelled, so that a
-- worker can end it. A background session without one ends here, and a run is stopped.
-- Arguments: actor, keep ms, reader (the clearance for the number of cancelled inputs, none for all).
-- Answers: ok open cancelled ready principal background unanswered: the number of cancelled inputs that the reader may
--   know of, and the positions of those that people wrote.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('ok') end
local bar = barred()
if bar then return bar end
local now = now_ms()
if background() then read_ahead(K.outbox) end
local run = S.charter and progress()
if suspended() then read_ahead(K.approvals) end
local cancelled = cancel_waiting(A.keep)
if #cancelled > 0 then forget_inputs(A.keep) end
local told, unanswered, open = 0, {}, S.turn ~= nil
for _, item in ipairs(cancelled) do
  if not A.reader or flows(item.label, A.reader) then told = told + 1 end
  if not item.sent then unanswered[#unanswered + 1] = item.position end
end
if S.turn then
  stop_turn(A.actor)
elseif S.status == Status.queued or S.status == Status.awaiting_input then
  move(Status.idle)
end
if background() and not S.turn and not S.ended then
  set(F.ended, now)
  if S.charter then
    drop(F.paused)
    run.status, run.ended, run.reason = RunStatus.stopped, now, EndReason.stopped
    set(F.progress, encode_part(run))
  end
end
archive_heard()
save(K.state)
return answer('ok', with_pool({open = open, cancelled = told, ready = wakes(now), unanswered = unanswered}))
