-- Note that nothing can be sent for a while: in a channel, at a place, to a dead address; or that one text waits. A
-- delivery that was turned away keeps its turn. An address from which a message came meanwhile is not dead.
-- Arguments: mine (the field of its turn, or ''), `what` (`channel` `place` `address` or `text`), address, wait ms.
-- Answers: ok.

local mine, what, now = A.mine, A.what, now_ms()
if what == 'address' then
  if redis.call('HEXISTS', K.gone, since(mine)) == 1 then
    redis.call('HSET', K.gone, A.address, digits(now + A.wait))
    redis.call('PEXPIRE', K.gone, A.wait)
  end
  redis.call('HDEL', K.place, mine)
  return reply('ok')
end
if what ~= 'text' then
  local key = what == 'channel' and K.channel or K.place
  local before = tonumber(redis.call('HGET', key, 'until') or 0)
  redis.call('HSET', key, 'until', digits(math.max(before, now + A.wait)))
  redis.call('PEXPIRE', key, math.max(before - now, A.wait) + PACE_LIFE)
end
if mine ~= '' then
  local packed = redis.call('HGET', K.place, mine)
  local turn = packed and decode(packed) or {number = redis.call('HINCRBY', K.place, 'n', 1)}
  turn.lapses, turn.op = now + A.wait, ''
  put_wait(mine, turn)
end
return reply('ok')
