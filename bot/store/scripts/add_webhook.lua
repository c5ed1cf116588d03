-- Keep a webhook, unless its program has as many as it may.
-- Arguments: id, webhook (principal, url, level, types, sessions), most.
-- Answers: ok created · full.

local packed = redis.call('HGET', K.webhooks, A.id)
if packed then return reply('ok', {created = digits(decode(packed).created)}) end
local room, now = A.most, now_ms()
for _, other in pairs(records(K.webhooks)) do
  if other.principal == A.webhook.principal then room = room - 1 end
end
if room <= 0 then return reply('full') end
local webhook = lean(A.webhook)
webhook.created = now
redis.call('HSET', K.webhooks, A.id, encode(webhook))
return reply('ok', {created = digits(now)})
