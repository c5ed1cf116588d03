-- Count something that happened, within a time that begins with the first of it.
-- KEYS: op, count
-- ARGV: ms of that time
-- Answers: ok count

local done = answered(KEYS[1])
if done then return done end
local life = num()
local count = redis.call('INCR', KEYS[2])
if count == 1 then redis.call('PEXPIRE', KEYS[2], life) end
return answer(KEYS[1], {'ok', count})
