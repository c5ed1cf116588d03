-- Say whether a session ever began under an id. With `seal` none begins there any more if none did: its place has an id
-- under a newer session key. A process that does not know that key is refused there.
-- Arguments: seal.
-- Answers: ok · none.

if redis.call('EXISTS', K.state) == 1 then return reply('ok') end
if A.seal then redis.call('SET', K.sealed, '1') end
return reply('none')
