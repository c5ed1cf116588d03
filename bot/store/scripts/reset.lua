-- Start a new generation: nothing of the old one can be written or spent any more. A run has one generation.
-- Arguments: actor, keep ms, keep_dead ms, agent (the pin of the new generation, absent for the old one), audit.
-- Answers: ok state · none · head · move before, after.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if S.charter then return reply('move', {before = S.status}) end
local now = now_ms()
local refusal = moved_head()
if refusal then return refusal end
if not may_move(S.status, Status.idle) then return reply('move', {before = S.status, after = Status.idle}) end

read_ahead(K.approvals, K.outbox)
read_inputs_ahead(taken_items())
cancel_waiting(A.keep)
for field, dedupe in pairs(taken_items()) do
  mark(dedupe, Item.cancelled, A.keep)
  drop(field)
end
forget_inputs(A.keep)
redis.call('DEL', K.held, K.observed)
redis.call('PEXPIRE', K.held_ids, A.keep)

for id, approval in pairs(records(K.approvals)) do
  if approval.generation ~= count(F.generation) then redis.call('HDEL', K.approvals, id) end
end
cancel_approvals(A.actor)

for key, delivery in pairs(records(K.outbox)) do
  local open = unsettled(delivery)
  local doubt = delivery.state == Delivery.ambiguous
  if open then
    delivery.state, delivery.op, delivery.sender, delivery.lapses = Delivery.cancelled, '', '', 0
    put_delivery(key, delivery)
  end
  -- A delivery in doubt is not kept any more: no person can decide on it.
  if open or doubt then forget(K.outbox, key, A.keep) end
end

-- The creation label stays: the session's existence reveals as much as before. The use of models is forgotten with the
-- old generation. Inputs are counted anew, as none waits and none is taken: their number would reveal old ones.
for _, field in ipairs({F.taint, F.inbox_label, F.title, F.model, F.turn, F.last_turn, F.stop, F.owner, F.lease_until,
  F.undelivered, F.late, F.usage, F.position, F.tries, F.context_seq, F.since, F.turns_alone, F.tokens}) do
  drop(field)
end
for field in pairs(fields_of(CHARGE)) do drop(field) end
for field in pairs(fields_of(ASIDE)) do drop(field) end
-- Only a session that UNTRUSTED data began is as untrusted as before.
if string.sub(S.creation or '', -1) == '~' then set(F.turned, S.creation) else drop(F.turned) end
set(F.generation, count(F.generation) + 1)
set(F.fence, count(F.fence) + 1)
move(Status.idle)
if A.agent then set(F.agent, A.agent) end
touch(now)
append_event(now, {type = 'session.reset', actor = A.actor, label = 'PUBLIC', visibility = 'user'})
set(F.generation_seq, count(F.seq))
drop(F.dead_until)
forget_deliveries(A.keep, A.keep_dead)
append_audit()
save(K.state)
return answer('ok', {state = state_fields()})
