-- Keep a message of a shared chat that was not addressed to the bot, once; the oldest go.
-- Arguments: dedupe, observed (account, label, text, opens), most, life ms, remembered (most ids).
-- Answers: ok.

local now = now_ms()
if redis.call('ZSCORE', K.observed_ids, A.dedupe) then return reply('ok') end

redis.call('ZADD', K.observed_ids, now, A.dedupe)
redis.call('ZREMRANGEBYSCORE', K.observed_ids, '-inf', now - A.life)
redis.call('ZREMRANGEBYRANK', K.observed_ids, 0, -A.remembered - 1)
redis.call('PEXPIRE', K.observed_ids, A.life)
redis.call('XADD', K.observed, 'MAXLEN', A.most, '*', 'e', encode(A.observed))
redis.call('XTRIM', K.observed, 'MINID', now - A.life)
redis.call('PEXPIRE', K.observed, A.life)
return reply('ok')
