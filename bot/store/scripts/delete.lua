-- Delete a session: a tombstone of its record is left, and the list of its inputs, so that a redelivered one is not
-- taken for a new one. No holder of the session can write any more. Large bodies and answers to operations are erased
-- after this, and `erased` notes that; until then the sweep finds the session.
-- Arguments: keep ms, audit.
-- Answers: ok, the audit head · none · head.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local refusal = moved_head()
if refusal then return refusal end
-- Read before anything is written: a record that cannot be read ends the script there.
local known = records(K.inputs)
for dedupe, input in pairs(known) do
  local over = input.status ~= Item.waiting and input.status ~= Item.taken
  redis.call('HSET', K.inputs, dedupe, encode({status = over and input.status or Item.cancelled}))
end
redis.call('PEXPIRE', K.inputs, A.keep)
redis.call('DEL', K.state, K.log, K.inbox, K.outbox, K.approvals, K.held, K.held_ids, K.observed, K.observed_ids, K.tasks,
  K.notes, K.record_key)
append_audit()
local kept = {[F.version] = SCHEMA, [F.generation] = count(F.generation) + 1, [F.fence] = count(F.fence) + 1,
  [F.audit_seq] = S.audit_seq, [F.audit_hash] = S.audit_hash, [F.home] = S.home, [F.principal] = S.principal,
  [F.created] = S.created, [F.updated] = now_ms(), [F.status] = Status.deleted, [F.erasing] = true}
S, pending = {}, {}
for field, value in pairs(kept) do set(field, value) end
save(K.state)
return reply('ok', with_head({}))
