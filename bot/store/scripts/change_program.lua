-- Give a token of a program another secret, or revoke it, for all processes of the store, with the audit rows that tell
-- of it. One that was revoked stays so.
-- Arguments: name, id and digest (of the new secret; none to revoke it), life (ms, 0 for ever), audit.
-- Answers: ok token (its record), the policy in force, the audit head · none · head.

local done = answered()
if done then return done end
local policy, changes = policy_in_force(), changes_made()
read_state(K.head)
local packed = redis.call('HGET', K.tokens, A.name)
local token = packed and decode(packed)
if not token or token.revoked then return reply('none') end
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
local now = now_ms()
if A.digest then
  token.id, token.digest = A.id, A.digest
  token.expires = A.life > 0 and now + A.life or nil
else
  token.digest, token.revoked = nil, now
end
packed = encode(token)
redis.call('HSET', K.tokens, A.name, packed)
count_change(policy, changes)
policy.token = packed
return answer('ok', with_head(policy))
