-- Put a session in quarantine, or keep it there for twice as long as the last time. Within its pause nothing changes,
-- as several processes may have met with the same failure. Only the first time is in the audit.
-- Arguments: field, error, where, pause ms (the first), longest ms, audit.
-- Answers: ok new record now, the audit head · head.

local done = answered()
if done then return done end
read_state(K.head)
local now, packed = now_ms(), redis.call('HGET', K.quarantine, A.field)
local known = packed and decode(packed)
if known and known.lapses > now then return reply('ok', with_head({record = packed, now = now})) end
if not known then
  local refusal = moved_head()
  if refusal then return refusal end
  append_audit()
  if A.audit then set(F.version, SCHEMA) end
end
local one = known or {since = now, tries = 0}
one.lapses = now + math.min(A.pause * 2 ^ math.min(one.tries, 30), A.longest)
one.tries, one.error, one.where, one.schema = one.tries + 1, A.error, A.where, SCHEMA
packed = encode(one)
redis.call('HSET', K.quarantine, A.field, packed)
save(K.head)
return answer('ok', with_head({new = not known, record = packed, now = now}))
