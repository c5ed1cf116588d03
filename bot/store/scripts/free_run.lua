-- Give the place of a run back with its slot; it is known for `keep` ms more. Or forget the slot name of a session's
-- run, after that was deleted: readers who may not know of the deletion get neither the place nor the slot.
-- Arguments: keep ms, run to give back, or session to forget.
-- Answers: ok.

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
