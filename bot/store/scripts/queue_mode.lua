-- Set how a session takes inputs while a turn runs.
-- Arguments: mode, none for the usual one; audit.
-- Answers: ok, the audit head · none · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local refusal = moved_head()
if refusal then return refusal end
if A.mode then set(F.queue_mode, A.mode) else drop(F.queue_mode) end
append_audit()
save(K.state)
return answer('ok', with_head({}))
