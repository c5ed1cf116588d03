-- Keep a stranger's question to be let in, or look for the stranger who was given a code.
-- KEYS: op, pairings
-- ARGV: `ask`, account, scope, digest of the code, how long it counts, most that may wait in one scope
--   or `try`, principal, digest, how long wrong ones count, most of them
-- Answers: ok · no · found account · locked

local done = answered(KEYS[1])
if done then return done end
local what, who, now = arg(), arg(), now_ms()
local waiting, named = 0, nil
local scope = what == 'ask' and arg() or ''
local digest, life, most = arg(), num(), num()
local flat = redis.call('HGETALL', KEYS[2])
for i = 1, #flat, 2 do
  local field, record = flat[i], pairing(flat[i + 1])
  if record.expires <= now then
    redis.call('HDEL', KEYS[2], field)
  elseif record.state == 'pending' then
    if record.scope == scope then waiting = waiting + 1 end
    if record.digest == digest then named = string.sub(field, 3) end
  end
end
if what == 'ask' then
  if redis.call('HEXISTS', KEYS[2], 'a:' .. who) == 1 or waiting >= most then return answer(KEYS[1], {'no'}) end
  put_pairing(KEYS[2], who, {state = 'pending', asked = now, expires = now + life, scope = scope, digest = digest})
  return answer(KEYS[1], {'ok'})
end
local tries = pairing(redis.call('HGET', KEYS[2], 't:' .. who))
local count = tries and tonumber(tries.digest) or 0
if count >= most then return answer(KEYS[1], {'locked'}) end
if named then return answer(KEYS[1], {'found', named}) end
local expires = tries and tries.expires or now + life
redis.call('HSET', KEYS[2], 't:' .. who, pairing_record({state = 'tries', asked = now, expires = expires, scope = '-',
  digest = count + 1}))
return answer(KEYS[1], {'no'})
