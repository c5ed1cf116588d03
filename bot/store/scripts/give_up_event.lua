-- Skip an event that could not be delivered to a webhook, and keep it among the webhook's newest dead events.
-- Arguments: id, session, seq, event (its id), attempt, error, most, keep ms.
-- Answers: ok · none, there is no such webhook.

if redis.call('HEXISTS', K.webhooks, A.id) == 0 then return reply('none') end
local packed, now = redis.call('HGET', K.positions, A.session), now_ms()
local position, dead = packed and decode(packed) or {}, records(K.dead)
if position.closed or A.seq <= (position.seq or 0) then return reply('ok') end
position.seq, position.attempt, position.lapses = A.seq, 0, 0
redis.call('HSET', K.positions, A.session, encode(position))
local count, oldest = 0, nil
for id, event in pairs(dead) do
  count = count + 1
  if not oldest or event.time < dead[oldest].time then oldest = id end
  -- No two have the same time, so that their order is clear.
  now = math.max(now, event.time + 1)
end
if count >= A.most then redis.call('HDEL', K.dead, oldest) end
redis.call('HSET', K.dead, A.event, encode({session = A.session, seq = A.seq, time = now, attempt = A.attempt,
  error = A.error}))
redis.call('HPEXPIRE', K.dead, A.keep, 'FIELDS', 1, A.event)
return reply('ok')
