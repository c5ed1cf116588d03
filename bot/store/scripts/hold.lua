-- Take a right, keep one that is held, or give it back; nobody else's is touched.
-- KEYS: right
-- ARGV: owner, life ms, 0 to give it back
-- Answers: ok · none, somebody else has it

local owner, life = arg(), num()
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= owner then return {'none'} end
if life > 0 then
  redis.call('SET', KEYS[1], owner, 'PX', life)
elseif holder then
  redis.call('DEL', KEYS[1])
end
return {'ok'}
