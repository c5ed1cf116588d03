-- Keep a new token of a program, for all processes of the store, with the audit rows that record it. A name that was
-- ever given is never given again, as sessions belong to it.
-- Arguments: name, record (id, scope, clearance, digest, creator, per_minute), life (ms, 0 for ever), most (how many
--   there may be), audit.
-- Answers: ok token (its record), the policy in force, the audit head · taken · full · head.
-- Fields of tokens: a name each, its record

local done = answered()
if done then return done end
local policy, changes = policy_in_force(), changes_made()
read_state(K.head)
if redis.call('HEXISTS', K.tokens, A.name) == 1 then return reply('taken') end
if redis.call('HLEN', K.tokens) >= A.most then return reply('full') end
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
local now, token = now_ms(), lean(A.record)
token.created = now
if A.life > 0 then token.expires = now + A.life end
local packed = encode(token)
redis.call('HSET', K.tokens, A.name, packed)
count_change(policy, changes)
policy.token = packed
return answer('ok', with_head(policy))
