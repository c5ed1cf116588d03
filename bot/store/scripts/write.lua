-- One atomic change to a claimed session, shared by raise_taint and commit.
-- KEYS: state, log, inbox, idem, outbox, approvals, audit, op, large bodies…
-- ARGV: generation, fence, owner, cursor, lease ms, keep ms, release
--       take or '', use or '', status or '', turn or '', whether a model is chosen, its name or ''
--       last turn or ''
--       from which event on a context is made, or ''
--       usage: requests, input tokens, output tokens, complete, cost, priced
--       count of settled, each: position, status
--       count of asked, each: id, expires, the rest
--       sender, send lease ms, op of the send, count of deliveries, each: key, channel, the rest
--       audit rows, see prelude
--       count of events, each: type, actor, label, visibility, admitted, turn, body, carried or ''
--       large bodies, in the order of their keys
-- Answers: ok seq taint now an ah stop ready behind waiting mode risen · stale · reset · cursor · head n hash · use · item · taken · move a b

local function read_write()
  local w = {cursor = num(), lease = num(), keep = num(), release = arg() == '1', take = arg(), use = arg(),
    status = arg(), turn = arg(), choose = arg() == '1', model = arg(), last = arg(), cut = arg(),
    usage = {num(), num(), num(), num(), num(), num()},
    settle = {}, ask = {}, deliver = {}, events = {}}
  for i = 1, num() do w.settle[i] = {pos = arg(), status = arg()} end
  for i = 1, num() do w.ask[i] = {id = arg(), expires = arg(), tail = arg()} end
  w.sender, w.send_lease, w.send_op = arg(), num(), arg()
  for i = 1, num() do w.deliver[i] = {key = arg(), channel = arg(), tail = arg()} end
  w.audit = read_audit()
  for i = 1, num() do
    w.events[i] = {type = arg(), actor = arg(), label = arg(), visibility = arg(), admitted = arg(), turn = arg(),
      body = arg(), carried = arg()}
  end
  return w
end

-- Find the dedupe key behind each settled position. One that is already terminal is passed over: the first
-- terminal status stays.
local function find_settled(w)
  local waiting
  local seen = {}
  w.taken_from_inbox = 0
  for _, s in ipairs(w.settle) do
    if seen[s.pos] then
      s.pos = ''
    elseif w.take == s.pos then
      s.dedupe = w.item_dedupe
    elseif S['taken:' .. s.pos] then
      s.dedupe = S['taken:' .. s.pos]
    else
      waiting = waiting or redis.call('LRANGE', KEYS[3], 0, -1)
      for _, item in ipairs(waiting) do
        local pos, dedupe = item_place(item)
        if pos == tonumber(s.pos) then
          s.dedupe, s.item = dedupe, item
          w.taken_from_inbox = w.taken_from_inbox + 1
        end
      end
    end
    seen[s.pos] = true
  end
end

-- The first reason to refuse, or nil; also works out what the write will need.
local function refuse_write(w, now)
  if count('seq') ~= w.cursor then return {'cursor'} end
  local refusal = moved_head(w.audit)
  if refusal then return refusal end
  if w.use ~= '' then
    local record = redis.call('HGET', KEYS[6], w.use)
    w.spent = record and approval(record)
    if not (w.spent and w.spent.state == 'approved' and w.spent.gen == S.gen and w.spent.expires > now) then
      return {'use'}
    end
    w.spent.by = string.sub(record, string.find(record, '\n', 1, true) + 1, #record - #w.spent.tail)
  end
  for _, a in ipairs(w.ask) do
    if redis.call('HEXISTS', KEYS[6], a.id) == 1 then return {'taken'} end
  end
  if w.take ~= '' then
    w.item = redis.call('LINDEX', KEYS[3], 0)
    local pos
    if w.item then pos, w.item_dedupe = item_place(w.item) end
    if pos ~= tonumber(w.take) then return {'item'} end
  end
  find_settled(w)
  w.wait = count('wait') - w.taken_from_inbox - (w.item and 1 or 0)
  if w.last ~= '' then w.status = w.wait > 0 and 'queued' or (w.status ~= '' and w.status or 'idle') end
  if w.status ~= '' and not may_move(S.status, w.status) then return {'move', S.status, w.status} end
end

-- Raise the taint by what the events admit, in the step that writes them (law taint_is_the_fold).
local function raise_taint(w)
  local before = S.taint or 'PUBLIC'
  local taint = before
  for _, event in ipairs(w.events) do
    if event.admitted == '1' then taint = join(taint, event.label) end
  end
  if taint ~= before then set('taint', taint) end
end

-- For whom the turn is that writes, the session's own principal outside one.
local function asker_of(w)
  local turn = w.turn ~= '' and w.turn or S.turn
  if not turn then return S.who end
  return cjson.decode(string.match(turn, '\n(.*)$'))[3]
end

local function move_items(w)
  if w.item then
    redis.call('LPOP', KEYS[3])
    -- The last event of the write that takes an input is the one that lets it in.
    mark(KEYS[4], w.item_dedupe, 'taken', nil, S.seq)
    set('taken:' .. w.take, w.item_dedupe)
  end
  for _, s in ipairs(w.settle) do
    if s.dedupe then
      mark(KEYS[4], s.dedupe, s.status, w.keep)
      drop('taken:' .. s.pos)
      if s.item then redis.call('LREM', KEYS[3], 1, s.item) end
    end
  end
  if w.wait ~= count('wait') then set('wait', w.wait) end
  if #w.settle > 0 then forget_inputs(KEYS[4], w.keep) end
end

-- What stands behind an older one to its address is not for this sender to say now: `w.behind` names it.
local function put_out(w, now)
  local behind = {}
  w.behind = {}
  if w.sender ~= '' and #w.deliver > 0 and count('out') > 0 then
    for _, d in ipairs(deliveries(KEYS[5])) do
      if unsettled(d) then behind[d.address] = true end
    end
  end
  for _, d in ipairs(w.deliver) do
    local sends = w.sender ~= '' and not behind[address_of(d)]
    if w.sender ~= '' and not sends then w.behind[#w.behind + 1] = d.key end
    add_delivery(KEYS[5], d.key, now, {state = sends and 'sending' or 'pending', attempt = sends and 1 or 0,
      till = sends and now + w.send_lease or 0, op = sends and w.send_op or '-', channel = d.channel,
      sender = sends and w.sender or '', tail = d.tail})
  end
end

local function choose_model(w)
  if not w.choose then return end
  if w.model == '' then drop('model') else set('model', w.model) end
end

local function move_turn(w, now)
  if w.turn ~= '' then set('turn', w.turn) end
  if w.status ~= '' then set('status', w.status) end
  if w.last == '' then return end
  set('last', w.last)
  drop('turn')
  drop('stop')
  if w.wait == 0 then drop('late') end
  -- A background session ends with its last turn and takes nothing any more.
  if S.kin and w.wait == 0 then set('done', now) end
  archive_heard(KEYS[5])
end

-- Add what was used; a session that never used anything has no such field.
local function add_usage(w)
  if w.last == '' and w.usage[1] == 0 then return end
  local sum = {0, 0, 0, 1, 0, 1}
  if S.usage then sum = {string.match(S.usage, '^(%d+) (%d+) (%d+) (%d) (%d+) (%d)$')} end
  for _, i in ipairs({1, 2, 3, 5}) do sum[i] = string.format('%.0f', sum[i] + w.usage[i]) end
  for _, i in ipairs({4, 6}) do sum[i] = math.min(tonumber(sum[i]), w.usage[i]) end
  set('usage', table.concat(sum, ' '))
end

local function write(release)
  local done = answered(KEYS[8])
  if done then return done end
  read_state(KEYS[1])
  local refusal = stale()
  if refusal then return refusal end
  local w, now = read_write(), now_ms()
  refusal = refuse_write(w, now)
  if refusal then return refusal end

  local before = visibility()
  raise_taint(w)
  local stop = S.stop and 1 or 0
  for i = 9, #KEYS do redis.call('SET', KEYS[i], arg()) end
  for _, event in ipairs(w.events) do append_event(KEYS[2], now, event) end
  append_audit(KEYS[7], w.audit)
  if w.spent then
    w.spent.state = 'used'
    put_approval(KEYS[6], w.use, w.spent, w.spent.by)
  end
  for _, a in ipairs(w.ask) do
    put_approval(KEYS[6], a.id, {state = 'pending', gen = S.gen, expires = a.expires, tail = a.tail}, '')
  end
  move_items(w)
  -- Before what is said with it: the parent hears that first.
  local risen = announce(KEYS[5], now, before, asker_of(w))
  put_out(w, now)
  move_turn(w, now)
  choose_model(w)
  add_usage(w)
  if w.cut ~= '' then set('cut', w.cut) end
  drop('tries')
  set('moved', now)
  if release or w.release then
    drop('owner')
    drop('until')
  else
    set('until', now + w.lease)
  end
  save(KEYS[1])
  return answer(KEYS[8], {'ok', S.seq, S.taint or 'PUBLIC', now, S.an or '0', S.ah or '', stop,
    wakes(KEYS[6], now), w.behind, count('wait'), S.mode or '', risen})
end
