-- Start a new generation: nothing of the old one can be written or spent any more.
-- KEYS: state, log, inbox, idem, outbox, approvals, audit, op, held, observed, held ids
-- ARGV: actor, keep ms, keep ms of dead letters, audit rows
-- Answers: ok state · none · head n hash · move before after

local done = answered(KEYS[8])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local actor, keep, keep_dead, now = arg(), num(), num(), now_ms()
local rows = read_audit()
local refusal = moved_head(rows)
if refusal then return refusal end
if not may_move(S.status, 'idle') then return {'move', S.status, 'idle'} end

cancel_waiting(KEYS[3], KEYS[4], keep)
for field, dedupe in pairs(taken_items()) do
  mark(KEYS[4], dedupe, 'cancelled', keep)
  drop(field)
end
forget_inputs(KEYS[4], keep)
redis.call('DEL', KEYS[9], KEYS[10])
redis.call('PEXPIRE', KEYS[11], keep)

local flat = redis.call('HGETALL', KEYS[6])
for i = 1, #flat, 2 do
  local a = approval(flat[i + 1])
  if a.gen ~= S.gen then
    redis.call('HDEL', KEYS[6], flat[i])
  end
end
cancel_approvals(KEYS[6], actor)

flat = redis.call('HGETALL', KEYS[5])
for i = 1, #flat, 2 do
  local d = delivery(flat[i + 1])
  local open = unsettled(d)
  if open then
    d.state, d.op, d.sender, d.till = 'cancelled', '-', '', 0
    put_delivery(KEYS[5], flat[i], d)
  end
  -- One in doubt is not kept any more: nobody can decide on it.
  if open or d.state == 'ambiguous' then forget(KEYS[5], flat[i], keep) end
end

-- The creation label stays: that the session exists tells as much as it did before. What was used goes with what it was
-- used for, and inputs are counted anew, as nothing waits and nothing is taken: how much there was tells of it.
local gone = {'taint', 'typed', 'title', 'model', 'turn', 'last', 'stop', 'owner', 'until', 'out', 'late', 'bits',
  'usage', 'pos', 'tries', 'cut'}
for _, field in ipairs(gone) do drop(field) end
-- Only one that UNTRUSTED data began is as untrusted as before.
if string.sub(S.made or '', -1) == '~' then set('turned', S.made) else drop('turned') end
set('gen', count('gen') + 1)
set('fence', count('fence') + 1)
set('status', 'idle')
set('moved', now)
append_event(KEYS[2], now, {type = 'session.reset', actor = actor, label = 'PUBLIC', visibility = 'user', admitted = 0,
  turn = '', body = '{}'})
set('gseq', S.seq)
drop('dead')
forget_deliveries(KEYS[5], keep, keep_dead)
append_audit(KEYS[7], rows)
save(KEYS[1])
return answer(KEYS[8], {'ok', redis.call('HGETALL', KEYS[1])})
