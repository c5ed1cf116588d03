-- Make an archived session writable again. A session that ended with its task has nothing more to do.
-- Arguments: actor, audit.
-- Answers: ok, the audit head · none · move before · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if S.ended then return reply('move', {before = S.status}) end
local refusal = moved_head()
if refusal then return refusal end
move(Status.idle)
tell('session.restored')
append_audit()
save(K.state)
return answer('ok', with_head({}))
