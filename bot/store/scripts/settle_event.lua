-- Mark a dead event to be tried once more, which its record tells the sender; or note the outcome of that try.
-- Arguments: id, event (its id), again, attempt, error, none if it was taken, keep ms.
-- Answers: ok · none.

local packed, known = redis.call('HGET', K.dead, A.event), redis.call('HGET', K.webhooks, A.id)
if not packed or not known then return reply('none') end
local event = decode(packed)
if not A.again and not A.error then
  redis.call('HDEL', K.dead, A.event)
  return reply('ok')
end
event.again = A.again
if A.again then
  local webhook = decode(known)
  webhook.wanted_at = math.max(now_ms(), (webhook.wanted_at or 0) + 1)
  redis.call('HSET', K.webhooks, A.id, encode(webhook))
end
if A.error then event.attempt, event.error = A.attempt, A.error end
redis.call('HSET', K.dead, A.event, encode(event))
-- A rewritten field would lose its expiry.
redis.call('HPEXPIREAT', K.dead, digits(event.time + A.keep), 'FIELDS', 1, A.event)
return reply('ok')
