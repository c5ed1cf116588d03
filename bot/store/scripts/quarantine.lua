-- Put a session in quarantine, or keep it there for twice as long as the last time. Within its pause nothing changes:
-- several processes may have met with the same. Only the first time is in the audit.
-- KEYS: quarantine, head, chain, op
-- ARGV: field, error, where, first pause ms, longest pause ms, audit rows
-- Answers: ok 1 if it is new, record, now, an, ah · head n hash

local done = answered(KEYS[4])
if done then return done end
read_state(KEYS[2])
local field, err, where, pause, longest = arg(), arg(), arg(), num(), num()
local rows, now = read_audit(), now_ms()
local known = redis.call('HGET', KEYS[1], field)
local one = known and cjson.decode(known) or {v = SCHEMA, since = now, tries = 0, ['until'] = 0}
if known and one['until'] > now then return {'ok', 0, known, now, S.an or 0, S.ah or ''} end
if not known then
  local refusal = moved_head(rows)
  if refusal then return refusal end
  append_audit(KEYS[3], rows)
  if rows.n > 0 then set('v', SCHEMA) end
end
one['until'] = now + math.min(pause * 2 ^ math.min(one.tries, 30), longest)
one.tries, one.error, one.where, one.schema = one.tries + 1, err, where, SCHEMA
local record = cjson.encode(one)
redis.call('HSET', KEYS[1], field, record)
save(KEYS[2])
return answer(KEYS[4], {'ok', known and 0 or 1, record, now, S.an or 0, S.ah or ''})
