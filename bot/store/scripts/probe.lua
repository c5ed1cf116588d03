-- Tell the sweep the needs of a session, and which processes hold it; changes nothing.
-- Arguments: channels.
-- Answers: ok dead (it may have dead letters), need: nothing · `waits` · `work` for a process that serves these channels ·
--   `erase`, it was deleted and not completely erased. With holders: the owner of its lease and its senders. And
--   principal, background, updated.

-- A newer program looks after its own sessions; such a session must not keep the others from being found.
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
return reply('ok', with_pool({dead = dead, need = work and 'work' or waits and 'waits', holders = holders,
  updated = digits(updated_ms())}))
