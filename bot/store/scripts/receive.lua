-- Take what another session sent, once: into the inbox if its label flows to what this session has read by now,
-- otherwise among the held items, of which nobody hears who is not cleared for them. Instead of a held one a constant
-- notice may enter the inbox. Nothing is created: a session that is gone or was reset takes nothing. One that has ended
-- takes the results of what it spawned, which have a notice, and nothing else.
-- KEYS: state, inbox, idem, held, [body]
-- ARGV: dedupe, digest, nonce, sender, label, body, generation, limit, held id, most held, notice or '', [large body]
-- Answers: ok status held · failed code · busy

local item = {dedupe = arg(), digest = arg(), nonce = arg(), sender = arg(), label = arg(), body = arg(), seq = 0}
local generation, limit, id, most, notice = arg(), num(), arg(), num(), arg()
if not read_state(KEYS[1]) then return {'failed', 'absent'} end
local known = redis.call('HGET', KEYS[3], item.dedupe)
if known then
  local status, seq = string.match(known, '^%d+ %d+ (%l+) %S+ %S+ ?(%S*)$')
  return {'ok', seq == '-' and 'held' or status, 1}
end
if S.gen ~= generation then return {'failed', 'reset'} end
if S.status == 'archived' then return {'failed', 'archived'} end
if S.done and notice == '' then return {'failed', 'ended'} end
local fits = flows(item.label, S.taint or 'PUBLIC')
if (fits or notice ~= '') and count('wait') >= limit then return {'busy'} end
if not fits and redis.call('HLEN', KEYS[4]) >= most then return {'failed', 'full'} end

local now = now_ms()
drop('done')
if KEYS[5] then redis.call('SET', KEYS[5], arg()) end
if fits then
  put_item(KEYS[2], KEYS[3], now, item)
  save(KEYS[1])
  return {'ok', 'waiting', 0}
end
local kept = {label = item.label, dedupe = item.dedupe, sender = item.sender, digest = item.digest, body = item.body}
if notice == '' then
  redis.call('HSET', KEYS[3], item.dedupe, table.concat({SCHEMA, 0, 'held', item.nonce, item.digest, '-'}, ' '))
else
  kept.dedupe = item.dedupe .. '/held'
  item.label, item.body = 'PUBLIC', notice
  put_item(KEYS[2], KEYS[3], now, item)
  save(KEYS[1])
end
put_held(KEYS[4], id, now, kept)
return {'ok', notice == '' and 'held' or 'waiting', 1}
