-- Find the stranger who was given a code; a wrong code is counted.
-- Arguments: principal, digest, life ms (how long wrong ones count), most of them.
-- Answers: found account · no · locked.

local done = answered()
if done then return done end
local now, named = now_ms(), nil
local live = live_pairings(now)
for field, pairing in pairs(live) do
  if pairing.state == 'pending' and pairing.digest == A.digest then named = string.sub(field, 3) end
end
local mine = 't:' .. A.principal
local tries = live[mine] or {state = 'tries', created = now, expires = now + A.life}
if (tries.tries or 0) >= A.most then return answer('locked') end
if named then return answer('found', {account = named}) end
tries.tries = (tries.tries or 0) + 1
redis.call('HSET', K.pairings, mine, encode(tries))
return answer('no')
