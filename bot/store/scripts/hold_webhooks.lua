-- Keep the rights of a process to send for webhooks, and take some that no process has; or give all of them back.
-- Arguments: owner, life ms, 0 to give them back, most (how many to take besides).
-- Answers: ok webhooks (list of id, record), those that the owner holds then.

local now, room, held, size = now_ms(), A.most, {}, 0
local webhooks, rights = redis.call('HGETALL', K.webhooks), records(K.rights)
local known = {}
for i = 1, #webhooks, 2 do known[i] = decode(webhooks[i + 1]) end
for i = 1, #webhooks, 2 do
  local id, packed = webhooks[i], webhooks[i + 1]
  local right = rights[id]
  local mine = right and right.owner == A.owner
  -- A right that lasts much longer than it may was taken before the store's clock was set back.
  local free = not right or right.lapses <= now or (A.life > 0 and right.lapses > now + 10 * A.life)
  if A.life == 0 then
    if mine then redis.call('HDEL', K.rights, id) end
  elseif not known[i].disabled and (mine or (free and room > 0)) then
    if not mine then room = room - 1 end
    local kept = mine and right or {}
    kept.owner, kept.lapses = A.owner, now + A.life
    redis.call('HSET', K.rights, id, encode(kept))
    held[size + 1], held[size + 2] = id, packed
    size = size + 2
  end
end
return reply('ok', {webhooks = held})
