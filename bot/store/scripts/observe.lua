-- Keep what was said in a shared chat and not to the bot, once; the oldest go.
-- KEYS: observed, observed ids
-- ARGV: dedupe, account, label, text, the thread it may open or '', most, life ms, most ids
-- Answers: ok

local dedupe, account, label, text, opens = arg(), arg(), arg(), arg(), arg()
local most, life, remembered, now = num(), num(), num(), now_ms()
if redis.call('ZSCORE', KEYS[2], dedupe) then return {'ok'} end

redis.call('ZADD', KEYS[2], now, dedupe)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - life)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -remembered - 1)
redis.call('PEXPIRE', KEYS[2], life)
local entry = {'v', SCHEMA, 'a', account, 'l', label, 't', text}
if opens ~= '' then entry[9], entry[10] = 'o', opens end
redis.call('XADD', KEYS[1], 'MAXLEN', most, '*', unpack(entry))
redis.call('XTRIM', KEYS[1], 'MINID', now - life)
redis.call('PEXPIRE', KEYS[1], life)
return {'ok'}
