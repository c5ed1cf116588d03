-- Forget a webhook with all that is kept for it.
-- Arguments: id.
-- Answers: ok.

redis.call('HDEL', K.webhooks, A.id)
redis.call('HDEL', K.rights, A.id)
redis.call('UNLINK', K.positions, K.dead)
return reply('ok')
