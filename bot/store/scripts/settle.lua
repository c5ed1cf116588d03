-- Record what became of a delivery its sender holds.
-- KEYS: state, outbox, audit
-- ARGV: key, sender, attempt, state, keep ms, keep ms of dead letters, what another session did with it or '',
--       ms after which a pending one may be tried again, 1 if it failed, what its channel calls it, audit rows
-- Answers: ok held an ah · head n hash

if not read_state(KEYS[1]) then return {'ok', 0, '0', ''} end
local key, sender, attempt, state, keep, keep_dead = arg(), arg(), num(), arg(), num(), num()
local arrival, wait, failed, receipt = arg(), num(), num(), arg()
local rows = read_audit()
local record = redis.call('HGET', KEYS[2], key)
local d = record and delivery(record)
if not d or d.sender ~= sender or d.attempt ~= attempt then return {'ok', 0, S.an or '0', S.ah or ''} end
-- A reset leaves nothing to be said.
if state == 'pending' and d.gen ~= S.gen then state = 'cancelled' end
if d.state ~= state then
  if d.state ~= 'sending' and d.state ~= 'ambiguous' then return {'ok', 0, S.an or '0', S.ah or ''} end
  local refusal = moved_head(rows)
  if refusal then return refusal end
  local before = unsettled(d) and 1 or 0
  -- One in doubt that was not said now is said later, and may have been said before.
  d.doubt = d.doubt or (d.state == 'ambiguous' and state == 'pending')
  d.state, d.till, d.op, d.arrival = state, wait > 0 and now_ms() + wait or 0, '-', arrival
  d.fails, d.receipt = d.fails + failed, receipt
  put_delivery(KEYS[2], key, d)
  left_unsaid(d, now_ms() + keep_dead)
  set('out', count('out') - before + (unsettled(d) and 1 or 0))
  if not unsettled(d) then
    if state ~= 'ambiguous' then forget(KEYS[2], key, DEAD[state] and keep_dead or keep) end
    forget_deliveries(KEYS[2], keep, keep_dead)
  end
  archive_heard(KEYS[2])
  append_audit(KEYS[3], rows)
  save(KEYS[1])
end
return {'ok', 1, S.an or '0', S.ah or ''}
