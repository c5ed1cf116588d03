-- Put a value in the place of another, or of whatever is there; an empty one stands for none.
-- KEYS: op, values
-- ARGV: field, 1 to compare, what was seen there, the new value, life ms, 0 for ever, -1 as long as the one before
-- Answers: ok · moved, something else is there

local done = answered(KEYS[1])
if done then return done end
local field, compares, seen, new, life = arg(), num(), arg(), arg(), num()
if compares == 1 and (redis.call('HGET', KEYS[2], field) or '') ~= seen then return answer(KEYS[1], {'moved'}) end
if new == '' then
  redis.call('HDEL', KEYS[2], field)
  return answer(KEYS[1], {'ok'})
end
if life < 0 then life = redis.call('HPTTL', KEYS[2], 'FIELDS', 1, field)[1] end
redis.call('HSET', KEYS[2], field, new)
if life > 0 then
  redis.call('HPEXPIRE', KEYS[2], life, 'FIELDS', 1, field)
else
  redis.call('HPERSIST', KEYS[2], 'FIELDS', 1, field)
end
return answer(KEYS[1], {'ok'})
