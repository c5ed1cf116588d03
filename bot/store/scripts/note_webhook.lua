-- Note a webhook's position in a session; nothing changes if it is further by now. A closed position stays closed, and
-- the dead events of the session go. With `forget` the session was deleted.
-- Arguments: id, session, seq, attempt, wait ms, closed, forget.
-- Answers: ok · none, there is no such webhook.

if redis.call('HEXISTS', K.webhooks, A.id) == 0 then return reply('none') end
local packed = redis.call('HGET', K.positions, A.session)
local position, dead = packed and decode(packed) or {}, (A.closed or A.forget) and records(K.dead) or {}
for id, event in pairs(dead) do
  if event.session == A.session then redis.call('HDEL', K.dead, id) end
end
if A.forget then
  redis.call('HDEL', K.positions, A.session)
elseif not position.closed and A.seq >= (position.seq or 0) then
  position.seq, position.attempt, position.closed = A.seq, A.attempt, A.closed
  position.lapses, position.time = 0, nil
  if A.attempt > 0 then
    position.time = now_ms()
    position.lapses = A.wait > 0 and position.time + A.wait or 0
  end
  redis.call('HSET', K.positions, A.session, encode(position))
end
return reply('ok')
