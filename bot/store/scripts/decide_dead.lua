-- Try a dead letter again, or let it go, because a person said so.
-- KEYS: state, outbox, audit, op
-- ARGV: key, 1 to try it again, keep ms, keep ms of dead letters, audit rows
-- Answers: ok an ah · none · head n hash

local done = answered(KEYS[4])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local key, again, keep, keep_dead, now = arg(), arg() == '1', num(), num(), now_ms()
local rows = read_audit()
local record = redis.call('HGET', KEYS[2], key)
local d = record and delivery(record)
if not d or not DEAD[d.state] or d.gen ~= S.gen then return {'none'} end
-- Somebody is saying it again, marked.
if d.till > now then return {'none'} end
local refusal = moved_head(rows)
if refusal then return refusal end

d.till, d.op, d.sender = 0, '-', ''
if again then
  d.doubt = d.doubt or d.state == 'ambiguous'
  d.state, d.created, d.fails = 'pending', now, 0
  set('out', count('out') + 1)
  put_delivery(KEYS[2], key, d)
else
  d.state = 'cancelled'
  put_delivery(KEYS[2], key, d)
  forget(KEYS[2], key, keep)
  forget_deliveries(KEYS[2], keep, keep_dead)
end
append_audit(KEYS[3], rows)
save(KEYS[1])
return answer(KEYS[4], {'ok', S.an or '0', S.ah or ''})
