-- Reserve a slot for a background session of a principal, unless as many live as may. A slot is kept until `free` is
-- told what became of the session; a reservation is good for `lease` ms, within which the session must be created.
-- KEYS: slots
-- ARGV: run, session, parent, lease ms, most of a parent, most of the principal
-- Answers: ok now until · full
-- field: `v state until session parent`

local run, session, parent, lease, siblings, all = arg(), arg(), arg(), num(), num(), num()
local now = now_ms()
local till = now + lease
local known = redis.call('HGET', KEYS[1], run)
if known and string.match(known, '^%d+ ended ') then
  return {'ok', now, tonumber(string.match(known, '^%d+ ended (%d+)'))}
end
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local v, state, _, _, of = string.match(flat[i + 1], '^(%d+) (%l+) (%d+) (%S+) (%S+)$')
  if tonumber(v) > SCHEMA then error({err = 'LGSCHEMA ' .. v}) end
  if flat[i] == run and state == 'live' then siblings, all = siblings + 1, all + 1 end
  if state == 'live' then
    all = all - 1
    if of == parent then siblings = siblings - 1 end
  end
end
if all <= 0 or siblings <= 0 then return {'full'} end
redis.call('HSET', KEYS[1], run, table.concat({SCHEMA, 'live', string.format('%.0f', till), session, parent}, ' '))
return {'ok', now, till}
