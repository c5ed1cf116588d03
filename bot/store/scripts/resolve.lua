-- Answer pending approvals or questions once, all in one step. An answer to an agent's question approves nothing, and
-- an approval answers no question.
-- Arguments: state, actor, ids, given (the answer to a question), seen (the store's time for the caller), audit.
--   Also grants (granted_until and granted_left by id): the approvals that are answered for further calls, too.
-- Answers: ok ready principal background records, the audit head · none · head.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local now, asked, open = now_ms(), {}, false
for i, id in ipairs(A.ids) do
  local packed = redis.call('HGET', K.approvals, id)
  if not packed then return reply('none') end
  local approval = decode(packed)
  if approval.state == Approval.pending then
    if approval.expires <= latest_ms(now) then return reply('none') end
    local question = approval.kind == Question.question
    if question and (A.state == Approval.approved or A.state == Approval.used) then return reply('none') end
    if not question and A.state == Approval.replied then return reply('none') end
    open = true
  end
  asked[i] = {approval = approval, packed = packed}
end
if open then
  local refusal = moved_head()
  if refusal then return refusal end
  read_ahead(K.approvals)
  for i, one in ipairs(asked) do
    if one.approval.state == Approval.pending then
      one.approval.state, one.approval.resolved_by = A.state, A.actor
      if one.approval.kind == Question.question then
        one.approval.given, one.approval.resolved_at = A.given, now
      end
      local grant = A.state == Approval.approved and A.grants[A.ids[i]]
      if grant then
        one.approval.granted_until, one.approval.granted_left = grant.granted_until, grant.granted_left
      end
      one.packed = put_approval(A.ids[i], one.approval)
    end
  end
  append_audit()
  if suspended() and S.status == Status.awaiting_input and not asking(now) then move(Status.queued) end
  save(K.state)
end
local stored = {}
for i, one in ipairs(asked) do stored[i] = one.packed end
return reply('ok', with_head(with_pool({ready = wakes(now), records = stored})))
