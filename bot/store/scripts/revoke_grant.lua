-- End a grant that a person takes back: no call spends a use of it any more.
-- Arguments: id (of the approval), actor, audit.
-- Answers: ok record, the audit head · none · head.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
local packed = redis.call('HGET', K.approvals, A.id)
local approval = packed and decode(packed)
if not approval or approval.generation ~= count(F.generation) or (approval.granted_until or 0) == 0 then
  return reply('none')
end
if not approval.granted_end then
  local refusal = moved_head()
  if refusal then return refusal end
  end_grant(A.id, approval, GrantEnd.revoked)
  append_audit()
  save(K.state)
end
return reply('ok', with_head({record = redis.call('HGET', K.approvals, A.id)}))
