-- Take a session with a lease and read what a turn needs.
-- KEYS: state, log, inbox, approvals
-- ARGV: owner, what it has read (0: nothing): generation, where contexts began, cursor; idle, lease ms, most items, most events, debounce ms, most claims in vain (0: any number),
--       channels served (none: all)…
-- Events: from the cursor on, itself included, or from where a context begins if the log did not go on from there.
-- Answers: ok now state items events approvals · none · elsewhere · unsettled ms · worn claims

local owner, generation, context, cursor = arg(), num(), num(), num()
local idle, lease, items, events, debounce, most = arg(), num(), num(), num(), num(), num()

-- For how many ms what waits is left, as more may come that belongs to it: what comes while a turn runs is collected,
-- all of one sender. What another one sent behind it, or as many as a claim takes, end that.
local function unsettled_ms(now)
  if S.turn or S.mode or not S.late then return 0 end
  local waiting, sent, first = redis.call('LRANGE', KEYS[3], 0, items - 1), 0, nil
  if #waiting == items then return 0 end
  for _, item in ipairs(waiting) do
    local at, sender = item_origin(item)
    if sender ~= (first or sender) then return 0 end
    sent, first = at, sender
  end
  return math.max(sent + debounce - now, 0)
end

if not read_state(KEYS[1]) then return {'none'} end
local now = now_ms()
local mine = held(now) and S.owner == owner
if not mine then
  if held(now) or S.status == 'archived' then return {'none'} end
  if not ripe(KEYS[4], now) and idle ~= '1' then return {'none'} end
  if not lives_on(served(11)) then return {'elsewhere'} end
  local early = idle == '1' and 0 or unsettled_ms(now)
  if early > 0 then return {'unsettled', early} end
  -- Whoever takes it and writes nothing may have been ended by it.
  if idle ~= '1' then
    if most > 0 and count('tries') >= most then return {'worn', count('tries')} end
    set('tries', count('tries') + 1)
  end
  set('fence', count('fence') + 1)
  set('owner', owner)
  set('until', now + lease)
  if S.turn and not suspended() then
    local attempt, rest = string.match(S.turn, '^(%d+)(.*)$')
    set('turn', (attempt + 1) .. rest)
  end
  save(KEYS[1])
end
local first = math.max(count('cut'), count('gseq'))
if generation == count('gen') and context == first and cursor <= count('seq') then first = math.max(first, cursor) end
return {'ok', now, redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[3], 0, items - 1),
  redis.call('XRANGE', KEYS[2], first .. '-0', '+', 'COUNT', events),
  redis.call('HGETALL', KEYS[4])}
