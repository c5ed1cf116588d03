-- Give the place of a run back with its slot; it is known for `keep` ms more. Or forget what the run of a session called
-- its slot, as that was deleted: nobody who may not know that gets the place or the slot by it.
-- Arguments: keep ms, run to give back, or session to forget
-- Answers: ok

for run, slot in pairs(records(K.slots)) do
  if A.run == run and slot.live then
    slot.live = false
    redis.call('HSET', K.slots, run, encode(slot))
    redis.call('HPEXPIRE', K.slots, A.keep, 'FIELDS', 1, run)
  elseif A.session == slot.session and slot.slot then
    slot.slot = nil
    local left = redis.call('HPEXPIRETIME', K.slots, 'FIELDS', 1, run)[1]
    redis.call('HSET', K.slots, run, encode(slot))
    redis.call('HPEXPIREAT', K.slots, digits(left), 'FIELDS', 1, run)
  end
end
return reply('ok')
