-- Change who may what and which chat is what, for all processes of the store, with the audit rows that tell of it;
-- and close the question of a stranger that this answers.
-- KEYS: audit head, audit chain, op, policy, overrides, pairings
-- ARGV: count of overrides the change was made from, account that asked or '', digest of its code, how long it may not
--   ask again, count of changes, per change field and value ('' takes it away), audit rows
-- Answers: ok an ah count v digest at process · moved · gone · head n hash

local done = answered(KEYS[3])
if done then return done end
local expected, account, digest, keep = num(), arg(), arg(), num()
local changes = {}
for i = 1, num() do changes[i] = {arg(), arg()} end
local rows = read_audit()
local known = redis.call('HMGET', KEYS[4], 'v', 'digest', 'at', 'process')
local there = redis.call('HMGET', KEYS[5], 'v', 'n')
for _, version in ipairs({known[1] or '0', there[1] or '0'}) do
  if tonumber(version) > SCHEMA then error({err = 'LGSCHEMA ' .. version}) end
end
read_state(KEYS[1])
local over, now = tonumber(there[2] or 0), now_ms()
if over ~= expected then return {'moved'} end
if account ~= '' then
  local asked = pairing(redis.call('HGET', KEYS[6], 'a:' .. account))
  if not asked or asked.digest ~= digest or asked.expires <= now then return {'gone'} end
end
local refusal = moved_head(rows)
if refusal then return refusal end
set('v', SCHEMA)
append_audit(KEYS[2], rows)
save(KEYS[1])
if account ~= '' and keep > 0 then
  put_pairing(KEYS[6], account, {state = 'denied', asked = now, expires = now + keep, scope = '-', digest = '-'})
elseif account ~= '' then
  redis.call('HDEL', KEYS[6], 'a:' .. account)
end
if #changes > 0 then
  over = over + 1
  for _, change in ipairs(changes) do
    if change[2] == '' then
      redis.call('HDEL', KEYS[5], change[1])
    else
      redis.call('HSET', KEYS[5], change[1], change[2])
    end
  end
  redis.call('HSET', KEYS[5], 'v', SCHEMA, 'n', over)
  if known[1] then redis.call('HSET', KEYS[4], 'over', over) end
end
return answer(KEYS[3], {'ok', S.an or '0', S.ah or '', tostring(over), unpack(known)})
