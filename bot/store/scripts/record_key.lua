-- Return the encryption key of a session's run record: the first that it was given. Without one it has none.
-- Arguments: fresh (the key to give, absent for none).
-- Answers: ok key · none.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if A.fresh then redis.call('SET', K.record_key, A.fresh, 'NX') end
return reply('ok', {key = redis.call('GET', K.record_key) or nil})
