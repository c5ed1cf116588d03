-- Count what a model used in the place of what was set aside for it. What was set aside over midnight is counted on the
-- day it is settled.
-- Arguments: id, tokens, complete (whether that is all of it), person, chat (none outside one), pool
-- Answers: ok

local done = answered()
if done then return done end
redis.call('HDEL', K.spending, A.id)
begun_day(now_ms())
spend(A, A.tokens, A.complete)
return answer('ok')
