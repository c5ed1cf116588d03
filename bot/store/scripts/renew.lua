-- Prolong a lease.
-- Arguments: claim, lease ms.
-- Answers: ok stop · stale · reset.

read_state(K.state)
local refusal = stale()
if refusal then return refusal end
set(F.lease_until, now_ms() + A.lease)
save(K.state)
return reply('ok', {stop = S.stop ~= nil})
