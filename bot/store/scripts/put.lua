-- Put something into a session's outbox without holding the session: what a person's command sends.
-- KEYS: state, outbox, [body]
-- ARGV: key, channel, the rest, [large body]
-- Answers: ok · none

local key, channel, tail = arg(), arg(), arg()
if not read_state(KEYS[1]) then return {'none'} end
if KEYS[3] then redis.call('SET', KEYS[3], arg()) end
add_delivery(KEYS[2], key, now_ms(), {state = 'pending', attempt = 0, till = 0, op = '-', channel = channel, sender = '',
  tail = tail})
save(KEYS[1])
return {'ok'}
