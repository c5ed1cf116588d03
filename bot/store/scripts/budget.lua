-- Set tokens aside before a model is asked, unless a budget of the day does not suffice, and count what it used in their
-- place. The day is that of the server's clock, UTC: what is set aside over midnight is counted on the day it is settled.
-- What is not settled within its time comes back, and what it used is not known.
-- KEYS: day, open, op
-- ARGV: `reserve`, id, ms of its time, tokens, person, chat, label, most of the person, of the chat, of all
--   or `settle`, id, tokens, 1 if that is all of it, person, chat, label
-- A person is `p/<who>`, a chat `c/<who>` or `-` for none; a most is empty for no limit.
-- Answers: ok · short person|chat|all never|used|held: the whole of it would not suffice, what is left of it does not,
--   or only not as long as others have set aside what they may not use
-- fields of day: `v`, `day` since 1970, `<account>` and `a` for all → tokens, `<account> <label>` → `tokens complete`
-- field of open: `v until tokens person chat label`

local what, id = arg(), arg()
local now = now_ms()
local today = math.floor(now / 86400000)
local known = redis.call('HMGET', KEYS[1], 'v', 'day')
if known[1] and tonumber(known[1]) > SCHEMA then error({err = 'LGSCHEMA ' .. known[1]}) end
local stale = not known[2] or tonumber(known[2]) < today

local function used(account)
  return stale and 0 or tonumber(redis.call('HGET', KEYS[1], account) or 0)
end

local function add(account, label, tokens, complete)
  if stale then
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'v', SCHEMA, 'day', today)
    stale = false
  end
  redis.call('HINCRBY', KEYS[1], account, tokens)
  if not label then return end
  local field = account .. ' ' .. label
  local before, all = string.match(redis.call('HGET', KEYS[1], field) or '0 1', '^(%d+) (%d)$')
  redis.call('HSET', KEYS[1], field, string.format('%.0f %s', before + tokens, complete == '1' and all or '0'))
end

local function spend(person, chat, label, tokens, complete)
  add(person, label, tokens, complete)
  if chat ~= '-' then add(chat, label, tokens, complete) end
  add('a', nil, tokens)
end

if what == 'settle' then
  local done = answered(KEYS[3])
  if done then return done end
  local tokens, complete, person, chat, label = num(), arg(), arg(), arg(), arg()
  redis.call('HDEL', KEYS[2], id)
  spend(person, chat, label, tokens, complete)
  return answer(KEYS[3], {'ok'})
end

local life, tokens, person, chat, label = num(), num(), arg(), arg(), arg()
local limits = {{'person', person, arg()}, {'chat', chat, arg()}, {'all', 'a', arg()}}
local held, lapsed = {}, {}
local flat = redis.call('HGETALL', KEYS[2])
for i = 1, #flat, 2 do
  local v, till, size, p, c, l = string.match(flat[i + 1], '^(%d+) (%d+) (%d+) (%S+) (%S+) (%S+)$')
  if tonumber(v) > SCHEMA then error({err = 'LGSCHEMA ' .. v}) end
  if flat[i] == id then return {'ok'} end
  if tonumber(till) < now then
    lapsed[#lapsed + 1] = {flat[i], p, c, l}
  else
    for _, account in ipairs({p, c, 'a'}) do held[account] = (held[account] or 0) + size end
  end
end
local waiting
for _, limit in ipairs(limits) do
  local whose, account, most = limit[1], limit[2], tonumber(limit[3])
  if most and account ~= '-' then
    local left = most - used(account)
    if tokens > left then return {'short', whose, tokens > most and 'never' or 'used'} end
    if tokens > left - (held[account] or 0) then waiting = waiting or {'short', whose, 'held'} end
  end
end
if waiting then return waiting end
for _, one in ipairs(lapsed) do
  redis.call('HDEL', KEYS[2], one[1])
  spend(one[2], one[3], one[4], 0, '0')
end
local record = string.format('%d %.0f %.0f %s %s %s', SCHEMA, now + life, tokens, person, chat, label)
redis.call('HSET', KEYS[2], id, record)
return {'ok'}
