-- Resume a paused session.
-- Arguments: actor, audit.
-- Answers: ok ready principal background, the audit head · none · move before · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if not S.paused then return reply('move', {before = S.status}) end
local refusal = moved_head()
if refusal then return refusal end
local now = now_ms()
if background() then read_ahead(K.outbox) end
if suspended() then read_ahead(K.approvals) end
local last = S.last_turn and decode_part(S.last_turn)
drop(F.paused)
if S.status == Status.paused then
  if S.turn then
    move(suspended() and asking(now) and Status.awaiting_input or Status.queued)
  elseif count(F.waiting) > 0 then
    move(Status.queued)
  else
    move(last and last.reason == NEEDS_INPUT and Status.awaiting_input or Status.idle)
  end
end
tell('session.resumed')
archive_heard()
append_audit()
save(K.state)
return answer('ok', with_head(with_pool({ready = wakes(now)})))
