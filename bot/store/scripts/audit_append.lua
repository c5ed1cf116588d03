-- Append rows to the chain for decisions outside a session.
-- KEYS: head, chain, op
-- ARGV: audit rows
-- Answers: ok an ah · head n hash

local done = answered(KEYS[3])
if done then return done end
read_state(KEYS[1])
local rows = read_audit()
local refusal = moved_head(rows)
if refusal then return refusal end
set('v', SCHEMA)
append_audit(KEYS[2], rows)
save(KEYS[1])
return answer(KEYS[3], {'ok', S.an, S.ah})
