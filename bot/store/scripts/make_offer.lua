-- Keep an offer for a while.
-- Arguments: offer, life ms.
-- Answers: ok.

redis.call('HSET', K.offer, 'offer', encode(A.offer))
redis.call('PEXPIRE', K.offer, A.life)
return reply('ok')
