-- Note that a webhook fails, since now if it did not before, or works; or why nothing is sent to it any more.
-- Arguments: id, failing, disabled
-- Answers: ok · none

local packed = redis.call('HGET', K.webhooks, A.id)
if not packed then return reply('none') end
local webhook = decode(packed)
webhook.failing = A.failing and (webhook.failing or now_ms()) or nil
webhook.disabled = webhook.disabled or A.disabled
redis.call('HSET', K.webhooks, A.id, encode(webhook))
return reply('ok')
