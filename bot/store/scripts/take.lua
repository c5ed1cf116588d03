-- Claim a session's pending deliveries for a sender. One whose sender vanished comes back once, as ambiguous. A
-- delivery is left if an older one to the same address waits, or another sender has that.
-- Arguments: sender, op, lease ms, channels.
-- And doubt: until when another server may have taken over, in ms, 0 for never. A delivery from before may have been
-- sent.
-- Answers: ok deliveries: key record key record ….

if not read_state(K.state) then return reply('ok') end
local bar = barred()
if bar then return bar end
local now, channels = now_ms(), set_of(A.channels) or {}
local taken, behind, waiting = {}, {}, count(F.undelivered)
for _, one in ipairs(deliveries()) do
  local delivery = one.delivery
  local mine = delivery.op == A.op
  if not mine and unsettled(delivery) and channels[delivery.channel] and (delivery.lapses or 0) <= now
      and not behind[delivery.address] then
    if delivery.state == Delivery.pending then
      delivery.doubtful = delivery.doubtful or delivery.created <= A.doubt
      delivery.state, delivery.attempt = Delivery.sending, (delivery.attempt or 0) + 1
    else
      delivery.state, waiting = Delivery.ambiguous, waiting - 1
      left_unsaid(delivery)
    end
    delivery.lapses, delivery.op, delivery.sender, mine = now + A.lease, A.op, A.sender, true
    one.packed = put_delivery(one.key, delivery)
  end
  if mine then
    taken[#taken + 1] = one.key
    taken[#taken + 1] = one.packed
  elseif unsettled(delivery) then
    behind[delivery.address] = true
  end
end
if waiting ~= count(F.undelivered) then
  set(F.undelivered, waiting)
  archive_heard()
end
save(K.state)
return reply('ok', {deliveries = taken})
