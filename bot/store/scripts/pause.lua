-- Pause a session: new inputs wait. An open turn still runs to its end, or until it waits for people.
-- Arguments: actor, audit.
-- Answers: ok, the audit head · none · move before · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred(reply('ok', with_head({})))
if bar then return bar end
local refusal = moved_head()
if refusal then return refusal end
if S.status ~= Status.running then move(Status.paused) end
set(F.paused, A.actor)
tell('session.paused')
append_audit()
save(K.state)
return answer('ok', with_head({}))
