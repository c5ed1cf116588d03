-- Read keys of one slot as they are at one moment.
-- Arguments: long (lists and streams that only grow), most (with more values theirs are read later).
-- Answers: for each key that is there: its place, type, expiry, values, the expiries of its fields, and how many values
--   are read later.

local FEW = 1000
local long, found = set_of(A.long) or {}, {}

local function field_ends(key, flat)
  local ends, some = {}, false
  for from = 1, #flat, 2 * FEW do
    local names = {}
    for i = from, math.min(#flat, from + 2 * FEW - 1), 2 do names[#names + 1] = flat[i] end
    for _, till in ipairs(redis.call('HPEXPIRETIME', key, 'FIELDS', #names, unpack(names))) do
      ends[#ends + 1], some = till, some or till > 0
    end
  end
  return some and ends or {}
end

for place = LARGE, #KEYS do
  local key = KEYS[place]
  local kind = redis.call('TYPE', key)['ok']
  local values, ends, count = {}, {}, 0
  if long[key] and (kind == 'list' or kind == 'stream') then
    count = redis.call(kind == 'list' and 'LLEN' or 'XLEN', key)
  end
  local later = count > A.most and count or 0
  if later > 0 then
    values = {}
  elseif kind == 'string' then
    values = {redis.call('GET', key)}
  elseif kind == 'list' then
    values = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then
    values = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then
    values = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then
    values = redis.call('HGETALL', key)
    ends = field_ends(key, values)
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      values[#values + 1], values[#values + 2], values[#values + 3] = entry[1], entry[2][1], entry[2][2]
    end
  end
  if kind ~= 'none' then found[#found + 1] = {place, kind, redis.call('PEXPIRETIME', key), values, ends, later} end
end
return found
