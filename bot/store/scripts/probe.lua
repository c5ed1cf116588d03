-- Say what a session needs, and whom it waits for, for the sweep; changes nothing.
-- Arguments: channels
-- Answers: ok dead (it may have dead letters), need: nothing · `waits` for somebody · `work` for who serves these
--   channels · `erase`, it was deleted and something of it is left, holders: who holds its lease and who is sending

-- A session of a newer program is that program's to look after; it must not keep the others from being found.
if tonumber(redis.call('HGET', K.state, F.version) or 0) > SCHEMA then return reply('ok', {need = 'waits'}) end
if not read_state(K.state) then return reply('ok') end
if S.erasing then return reply('ok', {need = 'erase'}) end
local now = now_ms()
local dead = count(F.dead_until) > now
if S.status == Status.archived and count(F.undelivered) == 0 then return reply('ok', {dead = dead}) end
local channels = set_of(A.channels)
local work = S.status ~= Status.archived and lives_on(channels) and wakes(now)
local holders = {}
if leased(now) then holders[1] = S.owner end
if count(F.undelivered) > 0 then
  local behind = {}
  for _, one in ipairs(deliveries()) do
    local delivery, lapses = one.delivery, one.delivery.lapses or 0
    if delivery.state == Delivery.sending and lapses > now then
      holders[#holders + 1] = delivery.sender
    elseif unsettled(delivery) and lapses <= now and not behind[delivery.address]
        and (not channels or channels[delivery.channel]) then
      work = true
    end
    if unsettled(delivery) then behind[delivery.address] = true end
  end
end
local waits = S.turn or count(F.waiting) > 0 or count(F.undelivered) > 0
return reply('ok', {dead = dead, need = work and 'work' or waits and 'waits', holders = holders})
