-- Mark sessions ready, by start-time fair queueing (ADR 0060): pools have turns in rotation, and within a pool the order
-- is that of marking. A session that is marked keeps its place.
-- The queue's virtual time is the place of the first session that waits. It grows a little with each mark, so that
-- pools without a session in the queue come in order. A session's place is that time, or one turn behind its pool's
-- last place. K.pools has the next place of each pool that is ahead of the time, and the time under the empty name.
-- With an empty queue all pools are alike, and time begins anew.
-- Arguments: sessions (list of: sid, pool, and the place of one that a worker gives back: it comes no later than that).
-- Answers: ok.

local first = redis.call('ZRANGE', K.ready, 0, 0, 'WITHSCORES')[2]
if not first then redis.call('DEL', K.pools) end
local time = math.max(tonumber(first or 0), tonumber(redis.call('ZSCORE', K.pools, '') or 0))
for _, session in ipairs(A.sessions) do
  local sid, pool, place = session[1], session[2], session[3]
  if not redis.call('ZSCORE', K.ready, sid) then
    time = time + 1
    if place then
      place = math.min(place, time)
    else
      place = math.max(time, tonumber(redis.call('ZSCORE', K.pools, pool) or 0))
      redis.call('ZADD', K.pools, digits(place + TURN_SPAN), pool)
    end
    redis.call('ZADD', K.ready, digits(place), sid)
  end
end
redis.call('ZADD', K.pools, digits(time), '')
redis.call('ZREMRANGEBYSCORE', K.pools, '-inf', '(' .. digits(time))
return reply('ok')
