-- Claim a session's pending deliveries for a sender. One whose sender vanished comes back once, ambiguous.
-- KEYS: state, outbox
-- ARGV: sender, op, send lease ms, channels…
-- Answers: ok key record key record …

if not read_state(KEYS[1]) then return {'ok'} end
local sender, op, lease, now = arg(), arg(), num(), now_ms()
local served = {}
for i = 4, #ARGV do served[ARGV[i]] = true end
local taken, flat, waiting = {}, redis.call('HGETALL', KEYS[2]), count('out')
for i = 1, #flat, 2 do
  local d, was = delivery(flat[i + 1]), nil
  if served[d.channel] and d.state == 'pending' then
    was, d.state, d.attempt, d.till = 'pending', 'sending', d.attempt + 1, now + lease
  elseif served[d.channel] and d.state == 'sending' and d.till <= now then
    was, d.state, waiting = 'sending', 'ambiguous', waiting - 1
  end
  if was then
    d.op, d.sender = op, sender
    d.record = put_delivery(KEYS[2], flat[i], d)
  elseif d.op == op then
    d.record = flat[i + 1]
  end
  if d.record then
    d.key = flat[i]
    taken[#taken + 1] = d
  end
end
if waiting ~= count('out') then set('out', waiting) end
save(KEYS[1])
table.sort(taken, function(a, b) return a.n < b.n end)
local reply = {'ok'}
for _, d in ipairs(taken) do
  reply[#reply + 1] = d.key
  reply[#reply + 1] = d.record
end
return reply
