-- Make a session read-only. Waiting inputs are cancelled; its deliveries are still sent. An open turn has to end
-- before.
-- Arguments: actor, keep ms, audit.
-- Answers: ok, the audit head · none · move before · busy · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred(reply('ok', with_head({})))
if bar then return bar end
if S.turn or leased(now_ms()) then return reply('busy') end
local refusal = moved_head()
if refusal then return refusal end
if #cancel_waiting(A.keep) > 0 then forget_inputs(A.keep) end
move(Status.archived)
drop(F.paused)
tell('session.archived')
append_audit()
save(K.state)
return answer('ok', with_head({}))
