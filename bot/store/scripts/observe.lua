-- Keep what was said in a shared chat and not to the bot, once; the oldest go.
-- KEYS: observed, observed ids
-- ARGV: dedupe, account, label, text, most, life ms, most ids
-- Answers: ok

local dedupe, account, label, text = arg(), arg(), arg(), arg()
local most, life, remembered, now = num(), num(), num(), now_ms()
if redis.call('ZSCORE', KEYS[2], dedupe) then return {'ok'} end

redis.call('ZADD', KEYS[2], now, dedupe)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - life)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -remembered - 1)
redis.call('PEXPIRE', KEYS[2], life)
redis.call('XADD', KEYS[1], 'MAXLEN', most, '*', 'v', SCHEMA, 'a', account, 'l', label, 't', text)
redis.call('XTRIM', KEYS[1], 'MINID', now - life)
redis.call('PEXPIRE', KEYS[1], life)
return {'ok'}
