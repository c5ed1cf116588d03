-- Put a policy in force for all processes of the store, with the audit rows that record it.
-- Arguments: digest, process, only_if_none (leave one that is there as it is), audit.
-- Answers: ok, the policy in force, the audit head · head.

local done = answered()
if done then return done end
local policy = policy_in_force()
read_state(K.head)
if A.only_if_none and policy.version then return answer('ok', with_head(policy)) end
-- The overrides have the true number: it is not lost with a lost head.
local changes = redis.call('HGET', K.overrides, 'count') or '0'
local refusal = moved_head()
if refusal then return refusal end
-- It is the version too, so it grows even if the clock does not.
local time = digits(math.max(now_ms(), tonumber(policy.time or 0) + 1))
set(F.version, SCHEMA)
append_audit()
save(K.head)
redis.call('HSET', K.policy, 'version', SCHEMA, 'digest', A.digest, 'time', time, 'process', A.process, 'changes', changes)
return answer('ok', with_head(policy_in_force()))
