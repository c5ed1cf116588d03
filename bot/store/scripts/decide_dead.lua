-- Try a dead letter again, or drop it, by a person's decision.
-- Arguments: key, again, keep ms, keep_dead ms, audit.
-- Answers: ok, the audit head · none · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local now, packed = now_ms(), redis.call('HGET', K.outbox, A.key)
local delivery = packed and decode(packed)
if not delivery or not dead_letter(delivery) then return reply('none') end
-- A process is sending it again, marked.
if (delivery.lapses or 0) > now then return reply('none') end
local refusal = moved_head()
if refusal then return refusal end

read_ahead(K.outbox)
delivery.lapses, delivery.op, delivery.sender = 0, '', ''
if A.again then
  delivery.doubtful = delivery.doubtful or delivery.state == Delivery.ambiguous
  delivery.state, delivery.created, delivery.failures = Delivery.pending, now, 0
  set(F.undelivered, count(F.undelivered) + 1)
  put_delivery(A.key, delivery)
else
  delivery.state = Delivery.cancelled
  put_delivery(A.key, delivery)
  forget(K.outbox, A.key, A.keep)
  forget_deliveries(A.keep, A.keep_dead)
end
append_audit()
save(K.state)
return answer('ok', with_head({}))
