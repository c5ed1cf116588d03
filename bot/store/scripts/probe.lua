-- Say what a session needs, for the sweep; changes nothing.
-- KEYS: state, approvals, outbox
-- Answers: ok, then 0 nothing · 1 work that waits for somebody · 2 work for a worker or a sender

-- A session of a newer program is that program's to look after; it must not keep the others from being found.
if tonumber(redis.call('HGET', KEYS[1], 'v') or 0) > SCHEMA then return {'ok', 1} end
if not read_state(KEYS[1]) or S.status == 'archived' then return {'ok', 0} end
local now = now_ms()
if wakes(KEYS[2], now) == 1 then return {'ok', 2} end
if count('out') > 0 then
  for _, record in ipairs(redis.call('HVALS', KEYS[3])) do
    local d = delivery(record)
    if d.state == 'pending' or (d.state == 'sending' and d.till <= now) then return {'ok', 2} end
  end
  return {'ok', 1}
end
return {'ok', (S.turn or count('wait') > 0 or held(now)) and 1 or 0}
