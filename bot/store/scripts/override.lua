-- Change principals and chats, for all processes of the store, with the audit rows of the change. Also close the
-- pairing request of a stranger that this answers.
-- Arguments: known (the count of changes that this one was made from), changes (list of field, and a record unless the
--   field is removed), audit. And answered (account, digest of its code, keep: how long it may not ask again).
--   And seen (the store's time for the caller).
-- Answers: ok count, the policy in force, the audit head · moved · gone · head.
-- Fields of overrides: `version`, `count`, and `person:`, `place:` and `blocked:` with a name, each a record

local done = answered()
if done then return done end
local policy = policy_in_force()
local changes, now = changes_made(), now_ms()
read_state(K.head)
if changes ~= A.known then return reply('moved') end
local asked = A.answered
if asked then
  local packed = redis.call('HGET', K.pairings, 'a:' .. asked.account)
  local pairing = packed and decode(packed)
  if not pairing or pairing.digest ~= asked.digest or pairing.expires <= latest_ms(now) then return reply('gone') end
end
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
if asked and asked.keep > 0 then
  redis.call('HSET', K.pairings, 'a:' .. asked.account, encode({state = 'denied', created = now,
    expires = now + asked.keep}))
elseif asked then
  redis.call('HDEL', K.pairings, 'a:' .. asked.account)
end
policy.changes = changes
if #A.changes > 0 then
  for _, change in ipairs(A.changes) do
    if change.record then
      local before = redis.call('HGET', K.overrides, change.field)
      redis.call('HSET', K.overrides, change.field, encode(renewed(before, change.record)))
    else
      redis.call('HDEL', K.overrides, change.field)
    end
  end
  count_change(policy, changes)
end
policy.count = policy.changes
return answer('ok', with_head(policy))
