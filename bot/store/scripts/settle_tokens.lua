-- Count a model's use at an account in place of the reserved tokens. Tokens reserved over midnight count on the day
-- they are settled.
-- Arguments: id, tokens, complete (whether that is all of it), pool.
-- Answers: ok day, and beyond number used wanted: the used and reserved tokens, which are more than the grant.

local done = answered()
if done then return done end
local now = now_ms()
local own, begins = own_portion(now, (set_aside(now)))
redis.call('HDEL', K.spending, A.id)
own.used = own.used + A.tokens
put_own(own, begins)
spend(A.pool, A.tokens, A.complete)
local wanted = own.used + (set_aside(now))
return answer('ok', {day = own.day, beyond = wanted > own.granted, number = own.number, used = own.used,
  wanted = wanted})
