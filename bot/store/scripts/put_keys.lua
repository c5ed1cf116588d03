-- Put copied keys back. It may be repeated: values of a list or a stream are added only where they follow.
-- Arguments: clears (how many of the keys are only emptied), whole (whether the first of the keys has to be there).
--   And kinds, at, expiries, values, lives: one for each of the keys after those.
-- Answers: ok.

local FEW = 1000

local function each(values, size, put)
  for from = 1, #values, size * FEW do
    local part = {}
    for i = from, math.min(#values, from + size * FEW - 1) do part[#part + 1] = values[i] end
    put(part)
  end
end

if A.whole and redis.call('EXISTS', KEYS[LARGE]) == 0 then return reply('ok') end
local first = LARGE + (A.whole and 1 or 0)
for place = first, first + A.clears - 1 do redis.call('UNLINK', KEYS[place]) end
for i, kind in ipairs(A.kinds) do
  local key, values = KEYS[first + A.clears + i - 1], A.values[i]
  if kind == 'string' then
    redis.call('SET', key, values[1])
  elseif kind == 'list' then
    if redis.call('LLEN', key) == A.at[i] then each(values, 1, function(part) redis.call('RPUSH', key, unpack(part)) end) end
  elseif kind == 'set' then
    each(values, 1, function(part) redis.call('SADD', key, unpack(part)) end)
  elseif kind == 'hash' then
    each(values, 2, function(part) redis.call('HSET', key, unpack(part)) end)
    for j, till in ipairs(A.lives[i]) do
      if till > 0 then redis.call('HPEXPIREAT', key, digits(till), 'FIELDS', 1, values[2 * j - 1]) end
    end
  elseif kind == 'zset' then
    for j = 1, #values, 2 do redis.call('ZADD', key, values[j + 1], values[j]) end
  elseif kind == 'stream' then
    if redis.call('XLEN', key) == A.at[i] then
      for j = 1, #values, 3 do redis.call('XADD', key, values[j], values[j + 1], values[j + 2]) end
    end
  end
  if A.expiries[i] > 0 then redis.call('PEXPIREAT', key, digits(A.expiries[i])) end
end
return reply('ok')
