-- Set tokens aside before a model is asked, unless a budget of the day does not suffice, and count what it used in their
-- place. The day is that of the server's clock, UTC: what is set aside over midnight is counted on the day it is settled.
-- What is not settled within its time comes back, and what it used is not known.
-- KEYS: day, open, op
-- ARGV: `reserve`, id, ms of its time, tokens, person, chat, pool, most of the person, of the chat, of all
--   or `settle`, id, tokens, 1 if that is all of it, person, chat, pool
-- A person is `p/<who>`, a chat `c/<who>` or `-` for none; a most is empty for no limit. That of a person or a chat is
-- for each of their pools, by its level and compartments: nothing of one pool tells in another (law no_read_up). That
-- of all is one for all pools together.
-- Answers: ok · short person|chat|all never|used|held: the whole of it would not suffice, what is left of it does not,
--   or only not as long as others have set aside what they may not use
-- fields of day: `v`, `day` since 1970, `a` for all → tokens, `<account> <pool>` → `tokens complete`
-- field of open: `v until tokens person chat pool`

local what, id = arg(), arg()
local now = now_ms()
local today = math.floor(now / 86400000)
local known = redis.call('HMGET', KEYS[1], 'v', 'day')
if known[1] and tonumber(known[1]) > SCHEMA then error({err = 'LGSCHEMA ' .. known[1]}) end
local stale = not known[2] or tonumber(known[2]) < today

local function used(account)
  local spent = not stale and redis.call('HGET', KEYS[1], account)
  return spent and tonumber(string.match(spent, '^%d+')) or 0
end

local function begin_day()
  if stale then
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'v', SCHEMA, 'day', today)
    stale = false
  end
end

local function add(field, tokens, complete)
  local before, all = string.match(redis.call('HGET', KEYS[1], field) or '0 1', '^(%d+) (%d)$')
  redis.call('HSET', KEYS[1], field, string.format('%.0f %s', before + tokens, complete == '1' and all or '0'))
end

local function spend(person, chat, pool, tokens, complete)
  begin_day()
  add(person .. ' ' .. pool, tokens, complete)
  if chat ~= '-' then add(chat .. ' ' .. pool, tokens, complete) end
  redis.call('HINCRBY', KEYS[1], 'a', tokens)
end

if what == 'settle' then
  local done = answered(KEYS[3])
  if done then return done end
  local tokens, complete, person, chat, pool = num(), arg(), arg(), arg(), arg()
  redis.call('HDEL', KEYS[2], id)
  spend(person, chat, pool, tokens, complete)
  return answer(KEYS[3], {'ok'})
end

local life, tokens, person, chat, pool = num(), num(), arg(), arg(), arg()
local limits = {{'person', person .. ' ' .. pool, arg()}, {'chat', chat .. ' ' .. pool, arg()}, {'all', 'a', arg()}}
local held, lapsed = {}, {}
local flat = redis.call('HGETALL', KEYS[2])
for i = 1, #flat, 2 do
  local v, till, size, p, c, l = string.match(flat[i + 1], '^(%d+) (%d+) (%d+) (%S+) (%S+) (%S+)$')
  if tonumber(v) > SCHEMA then error({err = 'LGSCHEMA ' .. v}) end
  if flat[i] == id then return {'ok'} end
  if tonumber(till) < now then
    lapsed[#lapsed + 1] = {flat[i], p, c, l, math.floor(till / 86400000)}
  else
    for _, account in ipairs({p .. ' ' .. l, c .. ' ' .. l, 'a'}) do held[account] = (held[account] or 0) + size end
  end
end
local waiting
for _, limit in ipairs(limits) do
  local whose, account, most = limit[1], limit[2], tonumber(limit[3])
  if most and (whose ~= 'chat' or chat ~= '-') then
    local left = most - used(account)
    if tokens > left then return {'short', whose, tokens > most and 'never' or 'used'} end
    if tokens > left - (held[account] or 0) then waiting = waiting or {'short', whose, 'held'} end
  end
end
if waiting then return waiting end
-- As who reads the day counts what has come back, so that it tells nothing when that is written, nor by whom.
for _, one in ipairs(lapsed) do
  redis.call('HDEL', KEYS[2], one[1])
  if one[5] == today then spend(one[2], one[3], one[4], 0, '0') end
end
local record = string.format('%d %.0f %.0f %s %s %s', SCHEMA, now + life, tokens, person, chat, pool)
redis.call('HSET', KEYS[2], id, record)
return {'ok'}
