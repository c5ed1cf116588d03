-- Take due timers, earliest first: each is due again in `hold` ms unless it is settled. The same call gets the same
-- answer, so that a lost reply delays none.
-- Arguments: most, hold ms.
-- Answers: ok timers (name due name due …) next (in how many ms one is due, none for no timer).

local done = answered()
if done then return done end
local now, found, size = now_ms(), {}, 0
local due = redis.call('ZRANGEBYSCORE', K.timers, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, A.most)
for i = 1, #due, 2 do
  -- If it was taken before, this record has the moment it was due, and not the one it came back.
  local at, again = string.match(redis.call('HGET', K.taken, due[i]) or '', '^(%d+)/(%d+)$')
  if again ~= due[i + 1] then at = due[i + 1] end
  redis.call('HSET', K.taken, due[i], at .. '/' .. digits(now + A.hold))
  redis.call('ZADD', K.timers, digits(now + A.hold), due[i])
  found[size + 1], found[size + 2] = due[i], at
  size = size + 2
end
local first = redis.call('ZRANGE', K.timers, 0, 0, 'WITHSCORES')[2]
local answered_with = {timers = found, next = first and digits(math.max(tonumber(first) - now, 0))}
return size > 0 and answer('ok', answered_with) or reply('ok', answered_with)
