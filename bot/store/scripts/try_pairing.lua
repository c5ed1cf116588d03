-- Find the stranger who was given a code; a wrong code is counted.
-- Arguments: principal, digests (of the code, under each key), life ms (how long wrong ones count), most of them, seen
--   (the store's time for the caller).
-- Answers: found account digest · no · locked.

local done = answered()
if done then return done end
local now, named, digest, wanted = now_ms(), nil, nil, {}
for _, one in ipairs(A.digests) do wanted[one] = true end
local live = live_pairings(latest_ms(now))
for field, pairing in pairs(live) do
  if pairing.state == 'pending' and wanted[pairing.digest] then
    named, digest = string.sub(field, 3), pairing.digest
  end
end
local mine = 't:' .. A.principal
local tries = live[mine] or {state = 'tries', created = now, expires = now + A.life}
if (tries.tries or 0) >= A.most then return answer('locked') end
if named then return answer('found', {account = named, digest = digest}) end
tries.tries = (tries.tries or 0) + 1
redis.call('HSET', K.pairings, mine, encode(tries))
return answer('no')
