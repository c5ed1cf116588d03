-- Forget a schedule and its timer.
-- Arguments: id, timer (its name), audit.
-- Answers: ok, the audit head · none · head.

local done = answered()
if done then return done end
read_state(K.head)
if redis.call('HEXISTS', K.schedules, A.id) == 0 then return reply('none') end
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
redis.call('HDEL', K.schedules, A.id)
redis.call('SREM', K.theirs, A.id)
put_timer(A.timer, 0)
return answer('ok', with_head({}))
