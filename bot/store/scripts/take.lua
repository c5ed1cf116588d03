-- Claim a session's pending deliveries for a sender. One whose sender vanished comes back once, ambiguous. What stands
-- behind an older one to the same address that waits, or that another is sending, is left.
-- KEYS: state, outbox
-- ARGV: sender, op, send lease ms, channels…
-- Answers: ok key record key record …

if not read_state(KEYS[1]) then return {'ok'} end
local sender, op, lease, now = arg(), arg(), num(), now_ms()
local channels = served(4) or {}
local reply, behind, waiting = {'ok'}, {}, count('out')
for _, d in ipairs(deliveries(KEYS[2])) do
  local mine = d.op == op
  if not mine and unsettled(d) and channels[d.channel] and d.till <= now and not behind[d.address] then
    if d.state == 'pending' then
      d.state, d.attempt, d.till = 'sending', d.attempt + 1, now + lease
    else
      d.state, d.till, waiting = 'ambiguous', now + lease, waiting - 1
      left_unsaid(d)
    end
    d.op, d.sender, mine = op, sender, true
    d.record = put_delivery(KEYS[2], d.key, d)
  end
  if mine then
    reply[#reply + 1] = d.key
    reply[#reply + 1] = d.record
  elseif unsettled(d) then
    behind[d.address] = true
  end
end
if waiting ~= count('out') then
  set('out', waiting)
  archive_heard(KEYS[2])
end
save(KEYS[1])
return reply
