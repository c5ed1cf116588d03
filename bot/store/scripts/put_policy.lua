-- Put a policy in force for all processes of the store, with the audit rows that tell of it.
-- KEYS: audit head, audit chain, op, policy, overrides
-- ARGV: digest, process, 1 to leave one that is there as it is, audit rows
-- Answers: ok an ah v digest at process over · head n hash

local done = answered(KEYS[3])
if done then return done end
local digest, process, only_if_none = arg(), arg(), num() == 1
local rows = read_audit()
local known = redis.call('HMGET', KEYS[4], 'v', 'digest', 'at', 'process', 'over')
if known[1] and tonumber(known[1]) > SCHEMA then error({err = 'LGSCHEMA ' .. known[1]}) end
read_state(KEYS[1])
if only_if_none and known[1] then return answer(KEYS[3], {'ok', S.an or '0', S.ah or '', unpack(known)}) end
-- The overrides know best how many there were: a head that was lost takes none with it.
local over = redis.call('HGET', KEYS[5], 'n') or '0'
local refusal = moved_head(rows)
if refusal then return refusal end
-- It is the version too, so it grows whatever the clock does.
local at = string.format('%d', math.max(now_ms(), tonumber(known[3] or 0) + 1))
set('v', SCHEMA)
append_audit(KEYS[2], rows)
save(KEYS[1])
redis.call('HSET', KEYS[4], 'v', SCHEMA, 'digest', digest, 'at', at, 'process', process, 'over', over)
return answer(KEYS[3], {'ok', S.an or '0', S.ah or '', tostring(SCHEMA), digest, at, process, over})
