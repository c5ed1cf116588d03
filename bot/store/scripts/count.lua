-- Count something that happened, within a time that begins with the first of it.
-- Arguments: life ms.
-- Answers: ok count.

local done = answered()
if done then return done end
local found = redis.call('INCR', K.count)
if found == 1 then redis.call('PEXPIRE', K.count, A.life) end
return answer('ok', {count = found})
