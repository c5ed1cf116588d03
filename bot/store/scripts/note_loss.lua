-- Note in a session's log that the store lost events which it had acknowledged. Each of their numbers gets an event, so
-- that none is used twice. The event after these is for readers, who may have read up to there. It is in the context
-- with the taint that is known to have been there: so the taint is the fold of the log and does not fall. The lease
-- ends, and its turn begins again from the log. An approval that was not used may have been, and counts no more; nor
-- does a grant, whose uses may be lost. The fence rises above all that were known.
-- Arguments: cursor, fence and rows (those of the record, which was compared), known (the newest fence that is known),
--   lost (the last lost event), gap and last (events), audit.
--   And records (the last row of the audit chain that is known as lost), key, delivery (of the notice to people).
--   And question (the kind of a delivery that asks people), reset (whether a reset was lost).
-- Answers: ok seq now fence ready, the audit head · none · moved · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if count(F.seq) ~= A.cursor or count(F.fence) ~= A.fence or count(F.audit_seq) ~= A.rows then return reply('moved') end
local refusal = moved_head()
if refusal then return refusal end
read_ahead(K.approvals, K.outbox)
local turn, now, before = open_turn(), now_ms(), visibility()
-- Nothing was said since an earlier loss was told.
local latest = redis.call('XREVRANGE', K.log, '+', '-', 'COUNT', 1)[1]
local again = latest ~= nil and decode(latest[2][2]).type == A.last.type

for _ = A.cursor + 1, A.lost do append_event(now, A.gap) end
append_event(now, A.last)
set_label(F.taint, join(S.taint or 'PUBLIC', A.last.label))
count_active(now)
if turn and not turn.suspended then
  turn.handed = (turn.handed or 0) + 1
  set(F.turn, encode_part(turn))
end
give_back()
drop(F.tries)
set(F.fence, math.max(count(F.fence), A.known) + 1)
set(F.truncated, count(F.fence))
set(F.truncated_audit, math.max(count(F.truncated_audit), A.records))
for id, approval in pairs(records(K.approvals)) do
  if approval.state == Approval.approved then
    approval.state = Approval.cancelled
    put_approval(id, approval)
  end
  end_grant(id, approval, GrantEnd.lost)
end
-- The answer to a question may be lost, while its copies say that it was answered. So it is asked once more.
if suspended() and asking(now) then
  for key, delivery in pairs(records(K.outbox)) do
    if delivery.kind == A.question and delivery.turn == turn.id and delivery.state == Delivery.sent then
      delivery.state, delivery.created, delivery.failures, delivery.doubtful = Delivery.pending, now, 0, true
      delivery.lapses, delivery.op, delivery.sender = 0, '', ''
      set(F.undelivered, count(F.undelivered) + 1)
      put_delivery(key, delivery)
      redis.call('PERSIST', K.outbox)
    end
  end
end
if suspended() and S.status == Status.awaiting_input and not asking(now) then move(Status.queued) end
announce(now, before, turn and turn.sender or S.principal)
if A.key and (A.reset or not again) then
  A.delivery.state = Delivery.pending
  add_delivery(A.key, now, A.delivery)
end
set(F.updated, now)
append_audit()
save(K.state)
return answer('ok', with_head({seq = count(F.seq), now = now, fence = count(F.fence), ready = wakes(now)}))
