-- Have an event that a webhook did not take tried once more, or note what became of that.
-- Arguments: event (its id), again, attempt, error, none if it was taken, keep ms
-- Answers: ok · none

local packed = redis.call('HGET', K.dead, A.event)
if not packed then return reply('none') end
local event = decode(packed)
if not A.again and not A.error then
  redis.call('HDEL', K.dead, A.event)
  return reply('ok')
end
event.again = A.again
if A.error then event.attempt, event.error = A.attempt, A.error end
redis.call('HSET', K.dead, A.event, encode(event))
-- To write it anew is to keep it for ever.
redis.call('HPEXPIREAT', K.dead, digits(event.time + A.keep), 'FIELDS', 1, A.event)
return reply('ok')
