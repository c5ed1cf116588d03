-- Note that a webhook fails, since now if it did not before, or works; or why it is disabled. Or enable it again; that
-- changes nothing for a webhook that is not disabled.
-- Arguments: id, failing, disabled, enabled.
-- Answers: ok · none.

local packed = redis.call('HGET', K.webhooks, A.id)
if not packed then return reply('none') end
local webhook = decode(packed)
if A.enabled then
  if not webhook.disabled then return reply('ok') end
  webhook.failing, webhook.disabled, webhook.enabled = nil, nil, now_ms()
else
  webhook.failing = A.failing and (webhook.failing or now_ms()) or nil
  webhook.disabled = webhook.disabled or A.disabled
end
redis.call('HSET', K.webhooks, A.id, encode(webhook))
return reply('ok')
