-- Take a session with a lease and read the records that a turn needs.
-- Arguments: owner, idle, lease ms, items and events (how many at most), debounce ms, longest (ms to leave parts), most
--   (claims in vain, 0 for any number), channels.
-- And known: the claimer's read position (generation, context, seq).
-- And doubt: until when another server may have taken over, in ms, 0 for never.
-- Events: from the known one on, itself included, or from where a context begins if the log does not continue it.
-- Answers: ok now state items events approvals · none · elsewhere · unsettled wait · worn tries.

-- How much is left of some ms since an input was accepted, nothing if that was later than now: the clock was set back,
-- or is that of another node.
local function left_ms(item, ms, now)
  local age = now - item.accepted_at
  return age < 0 and 0 or math.max(ms - age, 0)
end

-- For how many ms waiting inputs are left, as more of the same may come: inputs that come while a turn runs are
-- collected, all of one sender. An input of another sender behind them, or as many as a claim takes, end that.
local function unsettled_ms(now)
  if S.turn or S.queue_mode or not S.late then return 0 end
  local waiting, last = waiting_items(A.items), nil
  if #waiting == A.items then return 0 end
  for _, item in ipairs(waiting) do
    if last and item.sender ~= last.sender then return 0 end
    last = item
  end
  return last and left_ms(last, A.debounce, now) or 0
end

-- For how many ms the parts of one message are left, as another may come.
-- Then the whole inbox is one album, or texts that their sender's client may have cut.
local function parts_ms(now)
  if S.turn then return 0 end
  local waiting = waiting_items(A.items)
  local first, last = waiting[1], waiting[#waiting]
  if #waiting == A.items or not first then return 0 end
  for _, item in ipairs(waiting) do
    if not item.part or item.part ~= first.part or item.sender ~= first.sender then return 0 end
  end
  return math.min(left_ms(last, A.debounce, now), left_ms(first, A.longest, now))
end

if not read_state(K.state) then return reply('none') end
local now = now_ms()
if not (leased(now) and S.owner == A.owner) then
  if leased(now) then return reply('none') end
  local bar = barred(reply('none'))
  if bar then return bar end
  if not ripe(now) and not A.idle then return reply('none') end
  if not lives_on(set_of(A.channels)) then return reply('elsewhere') end
  local early = A.idle and 0 or math.max(unsettled_ms(now), parts_ms(now))
  if early > 0 then return reply('unsettled', {wait = early}) end
  -- The last sign of a worker that is gone was when it prolonged its lease. If the store failed after that, it is not
  -- this session that ended it.
  local sign = S.owner and math.min(count(F.lease_until) - A.lease, now)
  local excused = sign and A.doubt > 0 and sign <= A.doubt
  -- A process that takes it and writes nothing may have been ended by it.
  if not A.idle then
    if A.most > 0 and count(F.tries) >= A.most then return reply('worn', {tries = count(F.tries)}) end
    if not excused then set(F.tries, count(F.tries) + 1) end
  end
  charge_asides()
  if sign then count_active(sign) end
  set(F.fence, count(F.fence) + 1)
  set(F.owner, A.owner)
  set(F.since, now)
  set(F.lease_until, now + A.lease)
  local turn = open_turn()
  if turn and not turn.suspended then
    turn.attempt = (turn.attempt or 0) + 1
    if excused then turn.handed = (turn.handed or 0) + 1 end
    set(F.turn, encode_part(turn))
  end
  save(K.state)
end
local first = math.max(count(F.context_seq), count(F.generation_seq))
local known = A.known
if known and known.generation == count(F.generation) and known.context == first and known.seq <= count(F.seq) then
  first = math.max(first, known.seq)
end
return reply('ok', {now = now, state = state_fields(),
  items = redis.call('LRANGE', K.inbox, 0, A.items - 1),
  events = redis.call('XRANGE', K.log, first .. '-0', '+', 'COUNT', A.events),
  approvals = redis.call('HGETALL', K.approvals)})
