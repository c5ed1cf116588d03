-- Replace a value, or any present one; without a token the value is deleted.
-- Arguments: field, compares, seen (the record that was seen there, as it is stored), token,
--   life ms, 0 for ever, -1 as long as the one before.
-- Answers: ok · moved, another value is there.

local done = answered()
if done then return done end
local before, life = redis.call('HGET', K.values, A.field), A.life
if A.compares and (before or '') ~= (A.seen or '') then return answer('moved') end
if not A.token then
  redis.call('HDEL', K.values, A.field)
  return answer('ok')
end
if life < 0 then life = redis.call('HPTTL', K.values, 'FIELDS', 1, A.field)[1] end
redis.call('HSET', K.values, A.field, encode(renewed(A.compares and before, {token = A.token})))
if life > 0 then
  redis.call('HPEXPIRE', K.values, life, 'FIELDS', 1, A.field)
else
  redis.call('HPERSIST', K.values, 'FIELDS', 1, A.field)
end
return answer('ok')
