-- Cancel one input that waits, because who sent it said so. One that an open turn began with does not wait any more.
-- KEYS: state, inbox, idem, audit, op
-- ARGV: position, dedupe, keep ms, audit rows
-- Answers: ok an ah · none · head n hash

local done = answered(KEYS[5])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local position, dedupe, keep = num(), arg(), num()
local rows = read_audit()
local found, begun
if S.turn then
  local _, _, first = open_turn()
  begun = first
end
for _, item in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  local pos, name = item_place(item)
  if pos == position and name == dedupe and pos ~= begun then found = item end
end
if not found then return {'none'} end
local refusal = moved_head(rows)
if refusal then return refusal end

redis.call('LREM', KEYS[2], 1, found)
mark(KEYS[3], dedupe, 'cancelled', keep)
set('wait', count('wait') - 1)
forget_inputs(KEYS[3], keep)
if count('wait') == 0 and not S.turn and S.status == 'queued' then set('status', 'idle') end
append_audit(KEYS[4], rows)
save(KEYS[1])
return answer(KEYS[5], {'ok', S.an or '0', S.ah or ''})
