-- Reserve a slot for a background session of a principal, unless as many live in its pool as may be. A slot is taken
-- until `free` frees it, at most until its deadline, which is fixed with its pool. A reservation is good for `lease`
-- ms, within which the session must be created.
-- Arguments: run, session, parent, pool, life (ms it may take at most), deadline it has anyway or 0, lease ms, keep ms.
--   And siblings (most of a parent in the pool), all (most of the principal in the pool).
-- Answers: ok now until deadline · full.

local now, siblings, all = now_ms(), A.siblings, A.all
local lapses, deadline = now + A.lease, now + A.life
if A.deadline > 0 then deadline = math.min(deadline, A.deadline) end
local known
for run, slot in pairs(records(K.slots)) do
  if run == A.run then
    known = slot
  elseif slot.live and slot.pool == A.pool and slot.deadline > now then
    all = all - 1
    if slot.parent == A.parent then siblings = siblings - 1 end
  end
end
if known then
  deadline = known.deadline
  -- Asked for again from another pool it stays as it is there: no other pool prolongs it.
  if not known.live or known.pool ~= A.pool then
    return reply('ok', {now = now, ['until'] = known.lapses, deadline = deadline})
  end
end
if all <= 0 or siblings <= 0 then return reply('full') end
local slot = known or {}
slot.live, slot.lapses, slot.deadline, slot.pool = true, lapses, deadline, A.pool
slot.session, slot.parent = A.session, A.parent
redis.call('HSET', K.slots, A.run, encode(slot))
-- Known for as long after its deadline, also if it is freed before.
redis.call('HPEXPIREAT', K.slots, digits(deadline + A.keep), 'FIELDS', 1, A.run)
return reply('ok', {now = now, ['until'] = lapses, deadline = deadline})
