-- Mark slots as free whose record is unchanged since it was read; each is shown until `keep` ms after its deadline.
-- Arguments: keep ms, seen (list of run, record as it is stored).
-- Answers: ok.

for _, seen in ipairs(A.seen) do
  if redis.call('HGET', K.slots, seen.run) == seen.record then
    local slot = decode(seen.record)
    slot.live = false
    redis.call('HSET', K.slots, seen.run, encode(slot))
    redis.call('HPEXPIREAT', K.slots, digits(slot.deadline + A.keep), 'FIELDS', 1, seen.run)
  end
end
return reply('ok')
