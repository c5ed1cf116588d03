-- Prolong a lease.
-- KEYS: state
-- ARGV: generation, fence, owner, lease ms
-- Answers: ok stop · stale · reset

read_state(KEYS[1])
local refusal = stale()
if refusal then return refusal end
set('until', now_ms() + num())
save(KEYS[1])
return {'ok', S.stop and 1 or 0}
