-- Answer pending approvals once, all in one step.
-- KEYS: state, approvals, audit
-- ARGV: state, actor, count of ids, ids…, audit rows
-- Answers: ok ready an ah record record … · none · head n hash

if not read_state(KEYS[1]) then return {'none'} end
local state, actor, now = arg(), arg(), now_ms()
local ids, asked, open = {}, {}, false
for i = 1, num() do ids[i] = arg() end
local rows = read_audit()
for i, id in ipairs(ids) do
  local record = redis.call('HGET', KEYS[2], id)
  if not record then return {'none'} end
  local a = approval(record)
  a.record = record
  if a.state == 'pending' then
    if a.expires <= now then return {'none'} end
    open = true
  end
  asked[i] = a
end
if open then
  local refusal = moved_head(rows)
  if refusal then return refusal end
  for i, a in ipairs(asked) do
    if a.state == 'pending' then
      a.state = state
      a.record = put_approval(KEYS[2], ids[i], a, actor)
    end
  end
  append_audit(KEYS[3], rows)
  if suspended() and S.status == 'awaiting_input' and not asking(KEYS[2], now) then set('status', 'queued') end
  save(KEYS[1])
end
local reply = {'ok', wakes(KEYS[2], now), S.an or '0', S.ah or ''}
for _, a in ipairs(asked) do reply[#reply + 1] = a.record end
return reply
