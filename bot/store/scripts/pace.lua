-- Ask to send something at a place now. A delivery that may holds the place until it is sent, or until its lease is
-- over.
-- A delivery that must wait keeps its turn until some time after its next try.
-- Arguments: op, mine (the field of its turn, '' for a text that takes none), address, lease ms, grace ms.
--   And rates (list of name, `all` or a field of the place; every ms; burst).
-- Answers: ok · wait ms · gone.

local SHORT = 200

local op, mine, now = A.op, A.mine, now_ms()
if tonumber(redis.call('HGET', K.gone, A.address) or 0) > now then return reply('gone') end
local flat, place = redis.call('HGETALL', K.place), {}
for i = 1, #flat, 2 do place[flat[i]] = flat[i + 1] end

local turn = place[mine] and decode(place[mine])
if (turn and turn.op == op) or place.last == op then return reply('ok') end
local till = math.max(tonumber(redis.call('HGET', K.channel, 'until') or 0), tonumber(place['until'] or 0))
for field, packed in pairs(place) do
  if mine ~= '' and field ~= mine and is_wait(field) then
    local other = decode(packed)
    if other.lapses + A.grace <= now then
      redis.call('HDEL', K.place, field)
    elseif not turn or other.number < turn.number then
      till = math.max(till, other.op and 0 or other.lapses, now + SHORT)
    end
  end
end
local rates = {}
for i, rate in ipairs(A.rates) do
  local key = rate.name == 'all' and K.channel or K.place
  local full = math.max(tonumber(redis.call('HGET', key, rate.name) or 0), now)
  till = math.max(till, full - (rate.burst - 1) * rate.every)
  rates[i] = {key = key, name = rate.name, full = full + rate.every}
end
if mine ~= '' and not turn then turn = {number = redis.call('HINCRBY', K.place, 'n', 1)} end
if till > now then
  if mine ~= '' then
    turn.lapses, turn.op = till, ''
    put_wait(mine, turn)
  end
  return reply('wait', {ms = till - now})
end
for _, rate in ipairs(rates) do
  redis.call('HSET', rate.key, rate.name, digits(rate.full))
  redis.call('PEXPIRE', rate.key, PACE_LIFE)
end
redis.call('HSET', K.gone, since(mine), 1)
if redis.call('PTTL', K.gone) < A.lease then redis.call('PEXPIRE', K.gone, A.lease) end
if mine == '' then
  redis.call('HSET', K.place, 'last', op)
  redis.call('PEXPIRE', K.place, PACE_LIFE)
else
  turn.lapses, turn.op = now + A.lease, op
  put_wait(mine, turn)
end
return reply('ok')
