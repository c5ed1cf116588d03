-- Lock a slot for a run, unless another one of its pool has it. A run has one slot: locking another gives the first
-- back.
-- A fence rises with each lock of the pool. A worker that lost the run's session locks nothing after one that has it.
-- Arguments: run, slot, lock (the digest of it), holder (the fence of the claim that asks), keep ms.
-- Answers: ok run slot (the run that has the slot, and the record of its place) · none · stale.

local now, slots = now_ms(), records(K.slots)
local own = slots[A.run]
if not (own and own.live and own.deadline > now) then return reply('none') end
if A.holder < (own.holder or 0) then return reply('stale') end
if own.lock == A.lock and own.holder == A.holder then return reply('ok', {run = A.run, slot = encode(own)}) end
for run, other in pairs(slots) do
  -- Another node's clock ends the run: this one may be ahead of it.
  if run ~= A.run and other.live and other.lock == A.lock and other.pool == own.pool
      and other.deadline + CLOCKS_APART > now then
    return reply('ok', {run = run, slot = encode(other)})
  end
end
if own.lock ~= A.lock then
  own.slot, own.lock, own.since, own.fence = A.slot, A.lock, now, redis.call('HINCRBY', K.fences, own.pool, 1)
end
own.holder = A.holder
local packed = encode(own)
redis.call('HSET', K.slots, A.run, packed)
redis.call('HPEXPIREAT', K.slots, digits(own.deadline + A.keep), 'FIELDS', 1, A.run)
return reply('ok', {run = A.run, slot = packed})
