-- Keep a timer that was taken for longer, unless it was settled or set again meanwhile.
-- Arguments: timer (its name), due (when it was), hold ms.
-- Answers: ok.

local at, again = string.match(redis.call('HGET', K.taken, A.timer) or '', '^(%d+)/(%d+)$')
if at == digits(A.due) and redis.call('ZSCORE', K.timers, A.timer) == again then
  again = digits(now_ms() + A.hold)
  redis.call('HSET', K.taken, A.timer, at .. '/' .. again)
  redis.call('ZADD', K.timers, again, A.timer)
end
return reply('ok')
