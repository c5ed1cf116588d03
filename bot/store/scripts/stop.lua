-- Ask the open turn to stop and cancel what waits. A suspended turn's questions are cancelled, so that a
-- worker can end it.
-- KEYS: state, inbox, idem, approvals, op, outbox
-- ARGV: actor, keep ms, label of who hears how many were cancelled, or '' for all
-- Answers: ok open cancelled ready position …; of those cancelled as many as may be told, and where those stood that
--       people wrote

local done = answered(KEYS[5])
if done then return done end
if not read_state(KEYS[1]) then return {'ok', 0, 0, 0} end
local actor, keep, reader, now = arg(), num(), arg(), now_ms()
local cancelled = cancel_waiting(KEYS[2], KEYS[3], keep)
if #cancelled > 0 then forget_inputs(KEYS[3], keep) end
local told, reply = 0, {'ok', S.turn and 1 or 0}
for _, item in ipairs(cancelled) do
  local _, _, sent = item_origin(item)
  if reader == '' or flows(item_label(item), reader) then told = told + 1 end
  if not sent then reply[#reply + 1] = (item_place(item)) end
end
if S.turn then
  stop_turn(KEYS[4], actor)
elseif S.status == 'queued' then
  set('status', 'idle')
end
if S.kin and not S.turn then set('done', S.done or now) end
archive_heard(KEYS[6])
save(KEYS[1])
table.insert(reply, 3, told)
table.insert(reply, 4, wakes(KEYS[4], now))
return answer(KEYS[5], reply)
