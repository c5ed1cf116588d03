-- Keep a stranger's question to be let in.
-- Arguments: account, scope, digest of the code, life ms (how long it counts), most (that may wait in one scope).
-- Answers: ok · no.

local done = answered()
if done then return done end
local now, waiting = now_ms(), 0
for _, pairing in pairs(live_pairings(now)) do
  if pairing.state == 'pending' and pairing.scope == A.scope then waiting = waiting + 1 end
end
if redis.call('HEXISTS', K.pairings, 'a:' .. A.account) == 1 or waiting >= A.most then return answer('no') end
redis.call('HSET', K.pairings, 'a:' .. A.account, encode({state = 'pending', created = now, expires = now + A.life,
  scope = A.scope, digest = A.digest}))
return answer('ok')
