-- Ask to say something at a place now. Whoever may holds the place until it is said, or until its lease is over; who
-- has to wait keeps its turn until some time after it may be tried again.
-- KEYS: channel, place, dead addresses of the place
-- ARGV: op, field of its turn or '' for what takes none, address, lease ms, grace ms
--       count of rates, each: `all` or a field of the place, ms for one, how many at once
-- Answers: ok · wait ms · gone

local SHORT = 200

local op, mine, address, lease, grace, now = arg(), arg(), arg(), num(), num(), now_ms()
if tonumber(redis.call('HGET', KEYS[3], address) or 0) > now then return {'gone'} end
local flat, place = redis.call('HGETALL', KEYS[2]), {}
for i = 1, #flat, 2 do place[flat[i]] = flat[i + 1] end

local turn, _, holder = wait_of(place[mine])
if holder == op or place.last == op then return {'ok'} end
local till = math.max(tonumber(redis.call('HGET', KEYS[1], 'until') or 0), tonumber(place['until'] or 0))
for field, record in pairs(place) do
  if mine ~= '' and field ~= mine and is_wait(field) then
    local other, over, sending = wait_of(record)
    if over + grace <= now then
      redis.call('HDEL', KEYS[2], field)
    elseif not turn or other < turn then
      till = math.max(till, sending == '-' and over or 0, now + SHORT)
    end
  end
end
local rates = {}
for i = 1, num() do
  local field, every, burst = arg(), num(), num()
  local key = field == 'all' and KEYS[1] or KEYS[2]
  local full = math.max(tonumber(redis.call('HGET', key, field) or 0), now)
  till = math.max(till, full - (burst - 1) * every)
  rates[i] = {key, field, full + every}
end
if mine ~= '' and not turn then turn = redis.call('HINCRBY', KEYS[2], 'n', 1) end
if till > now then
  if mine ~= '' then put_wait(KEYS[2], mine, turn, till, '-') end
  return {'wait', till - now}
end
for _, rate in ipairs(rates) do
  redis.call('HSET', rate[1], rate[2], rate[3])
  redis.call('PEXPIRE', rate[1], PACE_LIFE)
end
redis.call('HSET', KEYS[3], since(mine), 1)
if redis.call('PTTL', KEYS[3]) < lease then redis.call('PEXPIRE', KEYS[3], lease) end
if mine == '' then
  redis.call('HSET', KEYS[2], 'last', op)
  redis.call('PEXPIRE', KEYS[2], PACE_LIFE)
else
  put_wait(KEYS[2], mine, turn, now + lease, op)
end
return {'ok'}
