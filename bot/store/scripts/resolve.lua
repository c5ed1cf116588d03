-- Answer a pending approval once.
-- KEYS: state, approvals, audit
-- ARGV: id, state, actor, audit rows
-- Answers: ok record ready an ah · none · head n hash

if not read_state(KEYS[1]) then return {'none'} end
local id, state, actor, now = arg(), arg(), arg(), now_ms()
local rows = read_audit()
local record = redis.call('HGET', KEYS[2], id)
if not record then return {'none'} end
local a = approval(record)
if a.state == 'pending' then
  if a.expires <= now then return {'none'} end
  local refusal = moved_head(rows)
  if refusal then return refusal end
  a.state = state
  record = put_approval(KEYS[2], id, a, actor)
  append_audit(KEYS[3], rows)
  if suspended() and S.status == 'awaiting_input' and not asking(KEYS[2], now) then set('status', 'queued') end
  save(KEYS[1])
end
return {'ok', record, wakes(KEYS[2], now), S.an or '0', S.ah or ''}
