-- Say what a session needs, and whom it waits for, for the sweep; changes nothing.
-- KEYS: state, approvals, outbox
-- ARGV: channels served (none: all)…
-- Answers: ok, 1 if it may have dead letters, then 0 nothing · 1 work that waits for somebody · 2 work for who serves
--          these channels; then who holds its lease and who is sending

-- A session of a newer program is that program's to look after; it must not keep the others from being found.
if tonumber(redis.call('HGET', KEYS[1], 'v') or 0) > SCHEMA then return {'ok', 0, 1} end
if not read_state(KEYS[1]) then return {'ok', 0, 0} end
local now = now_ms()
local dead = count('dead') > now and 1 or 0
if S.status == 'archived' and count('out') == 0 then return {'ok', dead, 0} end
local channels = served(1)
local need = S.status ~= 'archived' and lives_on(channels) and wakes(KEYS[2], now) == 1 and 2 or 0
local holders = {}
if held(now) then holders[1] = S.owner end
if count('out') > 0 then
  local behind = {}
  for _, d in ipairs(deliveries(KEYS[3])) do
    if d.state == 'sending' and d.till > now then
      holders[#holders + 1] = d.sender
    elseif unsettled(d) and d.till <= now and not behind[d.address] and (not channels or channels[d.channel]) then
      need = 2
    end
    if unsettled(d) then behind[d.address] = true end
  end
end
if need == 0 and (S.turn or count('wait') > 0 or count('out') > 0) then need = 1 end
return {'ok', dead, need, unpack(holders)}
