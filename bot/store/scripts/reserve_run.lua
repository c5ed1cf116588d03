-- Reserve a place for a run of a principal, unless as many live in its pool as may be. `free_run` gives it back, at
-- most when its deadline has passed, which is fixed with its pool. A run that had a place has it still, or had it.
-- Arguments: run, session, pool, deadline, most.
-- Answers: ok slot (its record) · full.

local now, room, known = now_ms(), A.most, nil
for run, slot in pairs(records(K.slots)) do
  if run == A.run then
    known = slot
  elseif slot.live and slot.pool == A.pool and slot.deadline > now then
    room = room - 1
  end
end
-- A run that was not created in time is created now, unless its place was given back meanwhile.
if known and (not known.live or known.pool ~= A.pool or known.lock) then return reply('ok', {slot = encode(known)}) end
if room <= 0 then return reply('full') end
local slot = known or {session = A.session, pool = A.pool, deadline = A.deadline, live = true}
slot.since = now
local packed = encode(slot)
redis.call('HSET', K.slots, A.run, packed)
redis.call('HPEXPIREAT', K.slots, digits(slot.deadline + A.keep), 'FIELDS', 1, A.run)
return reply('ok', {slot = packed})
