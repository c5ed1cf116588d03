-- Take an offer: the first way it is taken counts. It is gone when its time has passed.
-- Arguments: way.
-- Answers: ok way · none.

local packed = redis.call('HGET', K.offer, 'offer')
if not packed then return reply('none') end
check(decode_part(packed).version)
redis.call('HSETNX', K.offer, 'way', A.way)
return reply('ok', {way = redis.call('HGET', K.offer, 'way')})
