-- Record the outcome of a delivery that its sender holds.
-- Arguments: key, sender, attempt, state, keep ms, keep_dead ms, arrival (the outcome in another session), failed,
--   audit. And wait ms (after which a pending one may be tried again), receipt (the channel's id of the message).
-- Answers: ok held, the audit head · head.

if not read_state(K.state) then return reply('ok') end
local bar = barred()
if bar then return bar end
local state, packed = A.state, redis.call('HGET', K.outbox, A.key)
local delivery = packed and decode(packed)
if not delivery or delivery.sender ~= A.sender or delivery.attempt ~= A.attempt then return reply('ok', with_head({})) end
-- A reset leaves nothing to be sent.
if state == Delivery.pending and delivery.generation ~= count(F.generation) then state = Delivery.cancelled end
if delivery.state ~= state then
  if delivery.state ~= Delivery.sending and delivery.state ~= Delivery.ambiguous then return reply('ok', with_head({})) end
  local refusal = moved_head()
  if refusal then return refusal end
  if background() or count(F.dead_until) > 0 then read_ahead(K.outbox) end
  local before = unsettled(delivery) and 1 or 0
  -- A delivery in doubt that was not sent now is sent later, and may have been sent before.
  delivery.doubtful = delivery.doubtful or (delivery.state == Delivery.ambiguous and state == Delivery.pending)
  delivery.state, delivery.lapses, delivery.op = state, A.wait > 0 and now_ms() + A.wait or 0, ''
  delivery.arrival, delivery.receipt = A.arrival, A.receipt
  if A.failed then delivery.failures = (delivery.failures or 0) + 1 end
  put_delivery(A.key, delivery)
  left_unsaid(delivery, now_ms() + A.keep_dead)
  set(F.undelivered, count(F.undelivered) - before + (unsettled(delivery) and 1 or 0))
  if not unsettled(delivery) then
    if state ~= Delivery.ambiguous then forget(K.outbox, A.key, DEAD[state] and A.keep_dead or A.keep) end
    forget_deliveries(A.keep, A.keep_dead)
  end
  archive_heard()
  append_audit()
  save(K.state)
end
return reply('ok', with_head({held = true}))
