-- Let a session out of quarantine.
-- KEYS: quarantine, head, chain, op
-- ARGV: field, audit rows
-- Answers: ok an ah · none · head n hash

local done = answered(KEYS[4])
if done then return done end
read_state(KEYS[2])
local field, rows = arg(), read_audit()
if redis.call('HEXISTS', KEYS[1], field) == 0 then return {'none'} end
local refusal = moved_head(rows)
if refusal then return refusal end
redis.call('HDEL', KEYS[1], field)
set('v', SCHEMA)
append_audit(KEYS[3], rows)
save(KEYS[2])
return answer(KEYS[4], {'ok', S.an, S.ah})
