-- Forget a timer that was taken, unless it was set again meanwhile.
-- Arguments: timer (its name), due (when it was).
-- Answers: ok.

local at, again = string.match(redis.call('HGET', K.taken, A.timer) or '', '^(%d+)/(%d+)$')
if at == digits(A.due) and redis.call('ZSCORE', K.timers, A.timer) == again then put_timer(A.timer, 0) end
return reply('ok')
