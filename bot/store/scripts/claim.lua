-- Take a session with a lease and read what a turn needs.
-- KEYS: state, log, inbox, approvals
-- ARGV: owner, cursor, idle, lease ms, most items, most events, channels served (none: all)…
-- Answers: ok now state items events approvals · none · elsewhere

local owner, cursor, idle, lease, items, events = arg(), num(), arg(), num(), num(), num()
if not read_state(KEYS[1]) then return {'none'} end
local now = now_ms()
local mine = held(now) and S.owner == owner
if not mine then
  if held(now) or S.status == 'archived' then return {'none'} end
  if not ripe(KEYS[4], now) and idle ~= '1' then return {'none'} end
  if not lives_on(served(7)) then return {'elsewhere'} end
  set('fence', count('fence') + 1)
  set('owner', owner)
  set('until', now + lease)
  if S.turn and not suspended() then
    local attempt, rest = string.match(S.turn, '^(%d+)(.*)$')
    set('turn', (attempt + 1) .. rest)
  end
  save(KEYS[1])
end
return {'ok', now, redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[3], 0, items - 1),
  redis.call('XRANGE', KEYS[2], math.max(cursor + 1, count('gseq')) .. '-0', '+', 'COUNT', events),
  redis.call('HGETALL', KEYS[4])}
