-- Note that nothing can be said for a while: in a channel, at a place, to an address that is dead; or that one text
-- waits. What is turned away keeps its turn.
-- KEYS: channel, place, dead addresses of the place
-- ARGV: id or '', `channel` `place` `address` or `text`, address, ms
-- Answers: ok

local LIFE = 3600000

local id, what, address, wait, now = arg(), arg(), arg(), num(), now_ms()
if what == 'address' then
  redis.call('HSET', KEYS[3], address, now + wait)
  redis.call('PEXPIRE', KEYS[3], wait)
  redis.call('HDEL', KEYS[2], 'w:' .. id)
  return {'ok'}
end
if what ~= 'text' then
  local key = what == 'channel' and KEYS[1] or KEYS[2]
  local before = tonumber(redis.call('HGET', key, 'until') or 0)
  redis.call('HSET', key, 'until', math.max(before, now + wait))
  redis.call('PEXPIRE', key, math.max(before - now, wait) + LIFE)
end
if id ~= '' then
  local turn = string.match(redis.call('HGET', KEYS[2], 'w:' .. id) or '', '^%d+')
  turn = turn or redis.call('HINCRBY', KEYS[2], 'n', 1)
  redis.call('HSET', KEYS[2], 'w:' .. id, table.concat({turn, now + wait, '-'}, ' '))
  redis.call('PEXPIRE', KEYS[2], wait + LIFE)
end
return {'ok'}
