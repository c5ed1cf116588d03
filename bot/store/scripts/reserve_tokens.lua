-- Set tokens aside at an account, a person's or a shared chat's, before a model is asked. Nothing is set aside if the
-- account's daily budget does not suffice, or its portion of the budget of all. The day is that of the server's clock,
-- UTC. A reservation that is not settled in its time lapses, and its use is unknown. A reservation of an earlier call with
-- the same id is this call's.
-- Arguments: id, op, life ms, tokens, pool, most (none for no limit), leased (whether there is a limit for all),
--   grant (none, or a further one: number, granted, time).
-- A limit is for each pool of the account, by its level and compartments: no pool reveals anything of another (law
-- no_read_up). The portion of the budget of all is for all pools together, as that budget is.
-- Answers: ok day · short lack: the whole limit would not suffice (never), its rest does not (used), or only unused
--   reservations of others are in the way (held).
--   Or need number used day wanted: the least total grant.

local now = now_ms()
local aside, here, lapsed = set_aside(now, A.pool)
local own, begins = own_portion(now, aside)
local known = not lapsed[A.id] and redis.call('HGET', K.spending, A.id)
if not known then
  if A.most then
    local packed = not begins and redis.call('HGET', K.spent, A.pool)
    local left = A.most - (packed and decode(packed).tokens or 0)
    if A.tokens > left then return reply('short', {lack = A.tokens > A.most and 'never' or 'used'}) end
    if A.tokens > left - here then return reply('short', {lack = 'held'}) end
  end
  if A.grant and A.grant.number > own.number and A.grant.time > now - DAY then
    own.number, own.granted = A.grant.number, A.grant.granted
  end
  local wanted = own.used + aside + A.tokens
  if A.leased and wanted > own.granted then
    return reply('need', {number = own.number, used = own.used, day = own.day, wanted = wanted})
  end
end
put_own(own, begins)
-- Readers of the day already count lapsed reservations, so the time of this write, and its writer, reveal nothing.
for id, one in pairs(lapsed) do
  redis.call('HDEL', K.spending, id)
  if math.floor(one.lapses / DAY) == math.floor(now / DAY) then spend(one.pool, 0, false) end
end
redis.call('HSET', K.spending, A.id, encode({lapses = now + A.life, tokens = A.tokens, pool = A.pool, op = A.op}))
redis.call('PEXPIRE', K.spending, A.life + KEPT)
return reply('ok', {day = own.day})
