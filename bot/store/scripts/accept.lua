-- Append an input to a session's inbox once, creating the session.
-- KEYS: state, log, inbox, idem, [body]
-- ARGV: dedupe, digest, nonce, sender, label, body, home, principal, creation, limit, [large body]
-- Answers: ok position status duplicate created · conflict · busy · move before after

local dedupe, digest, nonce, sender, label, body = arg(), arg(), arg(), arg(), arg(), arg()
local home, principal, creation, limit = arg(), arg(), arg(), num()
local exists = read_state(KEYS[1])
local known = redis.call('HGET', KEYS[4], dedupe)
if known then
  local pos, status, by, said = string.match(known, '^%d+ (%d+) (%l+) (%S+) (%S+)$')
  if said ~= digest then return {'conflict'} end
  return {'ok', pos, status, by == nonce and 0 or 1}
end
if S.status == 'archived' then return {'move', 'archived', 'queued'} end
if count('wait') >= limit then return {'busy'} end

local typed = join(S.typed or 'PUBLIC', label)
local now = now_ms()
if not exists then
  set('v', SCHEMA)
  set('gen', 1)
  set('gseq', 1)
  set('status', 'idle')
  set('made', creation)
  set('home', home)
  set('who', principal)
  set('born', now)
  append_event(KEYS[2], now, {type = 'session.created', actor = sender, label = creation, visibility = 'internal',
    admitted = 0, turn = '', body = '{}'})
end
set('pos', count('pos') + 1)
set('wait', count('wait') + 1)
set('typed', typed)
set('moved', now)
if S.status == 'idle' or S.status == 'failed' or (S.status == 'awaiting_input' and not S.turn) then
  set('status', 'queued')
end
if KEYS[5] then redis.call('SET', KEYS[5], arg()) end
local head = table.concat({SCHEMA, S.pos, now, label, #dedupe, #sender}, ' ')
redis.call('RPUSH', KEYS[3], head .. '\n' .. dedupe .. sender .. body)
redis.call('HSET', KEYS[4], dedupe, table.concat({SCHEMA, S.pos, 'waiting', nonce, digest}, ' '))
save(KEYS[1])
return {'ok', S.pos, 'waiting', 0}
