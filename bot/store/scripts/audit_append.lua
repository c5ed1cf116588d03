-- Append rows to the chain for decisions outside a session.
-- Arguments: audit.
-- Answers: ok, the audit head · head.

local done = answered()
if done then return done end
read_state(K.head)
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
return answer('ok', with_head({}))
