-- Let a session out of quarantine.
-- Arguments: field, audit.
-- Answers: ok, the audit head · none · head.

local done = answered()
if done then return done end
read_state(K.head)
if redis.call('HEXISTS', K.quarantine, A.field) == 0 then return reply('none') end
local refusal = moved_head()
if refusal then return refusal end
redis.call('HDEL', K.quarantine, A.field)
set(F.version, SCHEMA)
append_audit()
save(K.head)
return answer('ok', with_head({}))
