-- Let a held item into the inbox, or drop it, because a person said so. A background session that has ended takes the
-- report of one that it spawned, as when that came. If what is let in is above its parent, that is told first.
-- KEYS: state, inbox, idem, held, held ids, outbox, audit, op
-- ARGV: id, accept, nonce, keep ms, limit, audit rows
-- Answers: ok ready an ah · none · busy · head n hash

local done = answered(KEYS[8])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local id, accept, nonce, keep, limit, now = arg(), arg() == '1', arg(), num(), num(), now_ms()
local rows = read_audit()
local record = redis.call('HGET', KEYS[4], id)
if not record then return {'none'} end
local item = held_item(record)
if accept and ((S.status == 'archived' and not S.done) or (S.done and not item.report)) then return {'none'} end
if accept and crowded(KEYS[2], item.label, limit, item.sender, true) then return {'busy'} end
local refusal = moved_head(rows)
if refusal then return refusal end

item.nonce, item.seq = nonce, '-'
redis.call('HDEL', KEYS[4], id)
forget(KEYS[5], item.dedupe, keep)
if redis.call('EXISTS', KEYS[4]) == 0 then redis.call('PEXPIRE', KEYS[5], keep) end
if accept then
  local before = visibility()
  wake_ended()
  put_item(KEYS[2], KEYS[3], now, item)
  announce(KEYS[6], now, before, item.sender)
end
append_audit(KEYS[7], rows)
save(KEYS[1])
return answer(KEYS[8], {'ok', accept and 1 or 0, S.an or '0', S.ah or ''})
