-- Reserve a slot for a background session of a principal, unless as many live in its pool as may. A slot is taken until
-- `free` is told what became of the session, at most until its deadline, which is fixed with it as its pool is; a
-- reservation is good for `lease` ms, within which the session must be created.
-- KEYS: slots
-- ARGV: run, session, parent, pool, most ms it may take, deadline it has anyway or 0, lease ms, keep ms,
--       most of a parent in the pool, most of the principal in the pool
-- Answers: ok now until deadline · full
-- field: `v state until deadline pool session parent`

local run, session, parent, pool, life, most = arg(), arg(), arg(), arg(), num(), num()
local lease, keep, siblings, all = num(), num(), num(), num()
local now = now_ms()
local till, deadline = now + lease, now + life
if most > 0 then deadline = math.min(deadline, most) end
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local v, state, lapses, due, there, of = string.match(flat[i + 1], '^(%d+) (%l+) (%d+) (%d+) (%S+) %S+ (%S+)$')
  if tonumber(v) > SCHEMA then error({err = 'LGSCHEMA ' .. v}) end
  if flat[i] == run then
    deadline = tonumber(due)
    -- Asked for again from another pool it stays as it is there: nobody else prolongs it.
    if state == 'ended' or there ~= pool then return {'ok', now, tonumber(lapses), deadline} end
  elseif state == 'live' and there == pool and tonumber(due) > now then
    all = all - 1
    if of == parent then siblings = siblings - 1 end
  end
end
if all <= 0 or siblings <= 0 then return {'full'} end
local times = string.format('%.0f %.0f', till, deadline)
redis.call('HSET', KEYS[1], run, table.concat({SCHEMA, 'live', times, pool, session, parent}, ' '))
-- Known for as long after its deadline, whatever becomes of it before.
redis.call('HPEXPIREAT', KEYS[1], string.format('%.0f', deadline + keep), 'FIELDS', 1, run)
return {'ok', now, till, deadline}
