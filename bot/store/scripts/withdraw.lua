-- Cancel one waiting input by its sender's wish. An input that an open turn began with does not wait any more.
-- Arguments: position, dedupe, keep ms, audit.
-- Answers: ok, the audit head · none · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local found
local turn = open_turn()
for _, item in ipairs(waiting_items()) do
  local begun = turn and turn.position == item.position
  if item.position == A.position and item.dedupe == A.dedupe and not begun then found = item.packed end
end
if not found then return reply('none') end
local refusal = moved_head()
if refusal then return refusal end

read_inputs_ahead({A.dedupe})
redis.call('LREM', K.inbox, 1, found)
mark(A.dedupe, Item.cancelled, A.keep)
set(F.waiting, count(F.waiting) - 1)
forget_inputs(A.keep)
if count(F.waiting) == 0 and not S.turn and S.status == Status.queued then move(Status.idle) end
append_audit()
save(K.state)
return answer('ok', with_head({}))
