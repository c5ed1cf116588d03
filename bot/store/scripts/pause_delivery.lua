-- Note that nothing can be said for a while: in a channel, at a place, to an address that is dead; or that one text
-- waits. What is turned away keeps its turn. An address from which something came in meanwhile is not dead.
-- KEYS: channel, place, dead addresses of the place
-- ARGV: field of its turn or '', `channel` `place` `address` or `text`, address, ms
-- Answers: ok

local mine, what, address, wait, now = arg(), arg(), arg(), num(), now_ms()
if what == 'address' then
  if redis.call('HEXISTS', KEYS[3], since(mine)) == 1 then
    redis.call('HSET', KEYS[3], address, now + wait)
    redis.call('PEXPIRE', KEYS[3], wait)
  end
  redis.call('HDEL', KEYS[2], mine)
  return {'ok'}
end
if what ~= 'text' then
  local key = what == 'channel' and KEYS[1] or KEYS[2]
  local before = tonumber(redis.call('HGET', key, 'until') or 0)
  redis.call('HSET', key, 'until', math.max(before, now + wait))
  redis.call('PEXPIRE', key, math.max(before - now, wait) + PACE_LIFE)
end
if mine ~= '' then
  local turn = wait_of(redis.call('HGET', KEYS[2], mine)) or redis.call('HINCRBY', KEYS[2], 'n', 1)
  put_wait(KEYS[2], mine, turn, now + wait, '-')
end
return {'ok'}
