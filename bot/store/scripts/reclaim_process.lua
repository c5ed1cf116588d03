-- Take from a process that is gone what it holds of a session: its lease, and the texts it was sending, which come
-- back as ambiguous. What others hold stays.
-- KEYS: state, approvals, outbox
-- ARGV: process
-- Answers: ok 1 if the session should be marked ready

if not read_state(KEYS[1]) then return {'ok', 0} end
local process, now, ready = arg(), now_ms(), 0
local function gone(name)
  return name == process or string.sub(name, 1, #process + 1) == process .. '.'
end
if held(now) and gone(S.owner) then
  drop('owner')
  drop('until')
  save(KEYS[1])
end
local flat = redis.call('HGETALL', KEYS[3])
for i = 1, #flat, 2 do
  local d = delivery(flat[i + 1])
  if d.state == 'sending' and d.till > now and gone(d.sender) then
    d.till = now
    put_delivery(KEYS[3], flat[i], d)
    ready = 1
  end
end
return {'ok', math.max(ready, wakes(KEYS[2], now))}
