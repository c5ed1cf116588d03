-- Let a held item into the inbox, or drop it, because a person said so.
-- KEYS: state, inbox, idem, held, audit, op
-- ARGV: id, accept, nonce, keep ms, limit, audit rows
-- Answers: ok ready an ah · none · busy · head n hash

local done = answered(KEYS[6])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local id, accept, nonce, keep, limit, now = arg(), arg() == '1', arg(), num(), num(), now_ms()
local rows = read_audit()
local record = redis.call('HGET', KEYS[4], id)
if not record then return {'none'} end
if accept and (S.status == 'archived' or S.done) then return {'none'} end
if accept and count('wait') >= limit then return {'busy'} end
local refusal = moved_head(rows)
if refusal then return refusal end

local item = held_item(record)
item.nonce, item.seq = nonce, '-'
redis.call('HDEL', KEYS[4], id)
if accept then
  put_item(KEYS[2], KEYS[3], now, item)
else
  mark(KEYS[3], item.dedupe, 'rejected', keep)
end
append_audit(KEYS[5], rows)
save(KEYS[1])
return answer(KEYS[6], {'ok', accept and 1 or 0, S.an or '0', S.ah or ''})
