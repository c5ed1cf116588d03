-- Free the holds of a process that is gone on a session: its lease, and the texts it was sending, which come back as
-- ambiguous. The holds of others stay.
-- Arguments: process.
-- Answers: ok ready.

if not read_state(K.state) then return reply('ok') end
local now, freed = now_ms(), false
local function gone(name)
  return name == A.process or string.sub(name or '', 1, #A.process + 1) == A.process .. '.'
end
local deliveries_there = records(K.outbox)
if leased(now) and gone(S.owner) then
  count_active(now)
  give_back()
  save(K.state)
end
for key, delivery in pairs(deliveries_there) do
  if delivery.state == Delivery.sending and (delivery.lapses or 0) > now and gone(delivery.sender) then
    delivery.lapses, freed = now, true
    put_delivery(key, delivery)
  end
end
return reply('ok', {ready = freed or wakes(now)})
