-- One atomic change to a claimed session, shared by raise_taint and commit.
-- Arguments: claim (generation, fence, owner), cursor, lease ms, keep ms, release, status, turn, memory, last_turn,
--   context_seq, usage, audit, events, seen (the store's time for the caller).
--   Also take (a position), use (an approval), model and whether one is chosen, sender, send_lease ms, op of the send.
--   Grants: grant (id and call: a use of one), ended (id and reason: those that end).
--   Lists: also (positions behind `take` of parts of the same message).
--   Lists: settle (position, status), ask (id, approval), deliver (key, delivery), acknowledge (ids of notes).
--   For a run alone: run (progress: the fields that a turn's end writes; item: the continuation), acknowledge.
-- Answers: ok seq taint now stop ready behind waiting mode risen, the audit head
--   stale · reset · cursor · head · use · grant · item · taken · move before after.

-- Find the dedupe key behind each settled position. One that is already terminal is skipped: the first terminal status
-- stays.
local function find_settled(w)
  local waiting
  local seen = {}
  w.taken_from_inbox = 0
  for _, one in ipairs(A.settle) do
    if seen[one.position] then
      one.again = true
    elseif w.taken[one.position] then
      one.dedupe = w.taken[one.position]
    elseif S['taken:' .. one.position] then
      one.dedupe = S['taken:' .. one.position]
    else
      waiting = waiting or waiting_items()
      for _, item in ipairs(waiting) do
        if item.position == one.position then
          one.dedupe, one.packed = item.dedupe, item.packed
          w.taken_from_inbox = w.taken_from_inbox + 1
        end
      end
    end
    seen[one.position] = true
  end
end

-- Whether a run ends with this write: with its turn, or where none is open. It ends once.
local function ends_run()
  return A.run and A.run.progress.ended > 0 and (A.last_turn or not S.turn) and not S.ended
end

-- A run that people stopped after its turn had checked for that still ends with that turn, without a continuation.
local function stop_run(now)
  local run = A.run
  if not (run and S.stop and A.last_turn) or S.ended or run.progress.ended > 0 then return end
  run.progress.status, run.progress.ended, run.progress.reason = RunStatus.stopped, now, EndReason.stopped
  run.item = nil
end

-- The first reason to refuse, or nil; also computes the values that the write will need.
local function refuse_write(w, now)
  if count(F.seq) ~= A.cursor then return reply('cursor') end
  local refusal = moved_head()
  if refusal then return refusal end
  if A.use then
    local packed = redis.call('HGET', K.approvals, A.use)
    w.spent = packed and decode(packed)
    if not (w.spent and w.spent.state == Approval.approved and w.spent.generation == count(F.generation)
        and w.spent.expires > latest_ms(now)) then
      return reply('use')
    end
  end
  if A.grant then
    local packed = redis.call('HGET', K.approvals, A.grant.id)
    w.granted = packed and decode(packed)
    if not (w.granted and grants(w.granted, A.grant.call, now)) then return reply('grant') end
  end
  for _, asked in ipairs(A.ask) do
    if redis.call('HEXISTS', K.approvals, asked.id) == 1 then return reply('taken') end
  end
  w.items, w.taken = {}, {}
  if A.take then
    local positions = {A.take, unpack(A.also)}
    for i, item in ipairs(waiting_items(#positions)) do
      if item.position == positions[i] then w.items[i], w.taken[item.position] = item, item.dedupe end
    end
    if #w.items < #positions then return reply('item') end
  end
  find_settled(w)
  stop_run(now)
  w.ends = ends_run()
  w.waiting = w.ends and 0 or count(F.waiting) - w.taken_from_inbox - #w.items
  w.status = A.status
  if A.last_turn then w.status = w.waiting > 0 and Status.queued or A.status or Status.idle end
  -- Paused while it ran, it is paused from the moment its turn ends or waits.
  if S.paused and w.status and w.status ~= Status.running then w.status = Status.paused end
  if w.ends then w.status = Status.idle end
  if w.status and not may_move(S.status, w.status) then
    return reply('move', {before = S.status, after = w.status})
  end
end

-- Read the records for the run's part of a write, as below.
local function read_run_ahead(w)
  progress()
  decode_part(S.charter)
  if A.run then
    for _, item in ipairs(waiting_items()) do read_inputs_ahead({item.dedupe}) end
  end
  w.notes = {}
  for _, id in ipairs(A.acknowledge or {}) do
    local packed = redis.call('HGET', K.notes, id)
    if packed then w.notes[id] = decode(packed) end
  end
end

-- Read the records that the write uses after its first event: an unreadable one ends it before that.
local function read_write_ahead(w)
  local inputs = {}
  for _, item in ipairs(w.items) do inputs[#inputs + 1] = item.dedupe end
  for _, one in ipairs(A.settle) do inputs[#inputs + 1] = one.dedupe end
  read_inputs_ahead(inputs)
  if S.lineage then decode_part(S.lineage) end
  if S.usage then decode_part(S.usage) end
  if S.charter then read_run_ahead(w) end
  if count(F.undelivered) > 0 and (background() or A.sender) then read_ahead(K.outbox) end
  if suspended() or (A.turn and A.turn.suspended) or #A.ended > 0 then read_ahead(K.approvals) end
end

-- Raise the taint by the labels of the admitted events, in the step that writes them (law taint_is_the_fold).
local function raise_taint(events)
  local before = S.taint or 'PUBLIC'
  local taint = before
  for _, event in ipairs(events) do
    if event.admitted then taint = join(taint, event.label) end
  end
  if taint ~= before then set(F.taint, taint) end
end

-- The asker of the turn that writes, the session's own principal outside one.
local function asker_of()
  local turn = A.turn or open_turn()
  return turn and turn.sender or S.principal
end

-- Whether a person's message is among the inputs that this write settles.
local function heard_person()
  for _, one in ipairs(A.settle) do
    local input = one.dedupe and input_of(one.dedupe)
    if input and not input.sent then return true end
  end
  return false
end

local function move_items(w)
  for _, item in ipairs(w.items) do
    redis.call('LPOP', K.inbox)
    -- The last event of the write that takes an input is the one that admits it.
    mark(item.dedupe, Item.taken, nil, S.seq)
    set('taken:' .. item.position, item.dedupe)
  end
  for _, one in ipairs(A.settle) do
    if one.dedupe and not one.again then
      mark(one.dedupe, one.status, A.keep)
      drop('taken:' .. one.position)
      if one.packed then redis.call('LREM', K.inbox, 1, one.packed) end
    end
  end
  if w.ends then cancel_waiting(A.keep) end
  if w.waiting ~= count(F.waiting) then set(F.waiting, w.waiting) end
  if #A.settle > 0 or w.ends then forget_inputs(A.keep) end
end

-- A delivery behind an older one to its address is not for this sender to send now: `w.behind` has it.
local function put_out(w, now)
  local behind = {}
  w.behind = {}
  if A.sender and #A.deliver > 0 and count(F.undelivered) > 0 then
    for _, one in ipairs(deliveries()) do
      if unsettled(one.delivery) then behind[one.delivery.address] = true end
    end
  end
  for _, one in ipairs(A.deliver) do
    local delivery = one.delivery
    delivery.state = Delivery.pending
    if A.sender and behind[delivery.address] then
      w.behind[#w.behind + 1] = one.key
    elseif A.sender then
      delivery.state, delivery.attempt, delivery.lapses = Delivery.sending, 1, now + A.send_lease
      delivery.sender, delivery.op = A.sender, A.op
    end
    add_delivery(one.key, now, delivery)
  end
end

local function choose()
  if A.chooses_model then
    if A.model then set(F.model, A.model) else drop(F.model) end
  end
  -- The chosen use of memories survives a reset: a reset must not switch it on again.
  if A.memory then set(F.memory, A.memory) end
end

local function move_turn(w, now)
  if A.turn then
    local before = open_turn()
    local kept = before and before.id == A.turn.id and S.turn or nil
    set(F.turn, encode_part(renewed(kept, A.turn)))
  end
  if w.status then move(w.status) end
  if not A.last_turn then return end
  set(F.last_turn, encode_part(A.last_turn))
  drop(F.turn)
  drop(F.stop)
  if w.person then drop(F.turns_alone) else set(F.turns_alone, count(F.turns_alone) + 1) end
  if w.waiting == 0 then drop(F.late) end
  -- A turn that waited for people kept its deliveries.
  if count(F.undelivered) == 0 and count(F.dead_until) == 0 then redis.call('PEXPIRE', K.outbox, A.keep) end
  -- A background session ends with its last turn and accepts nothing any more.
  if S.lineage and w.waiting == 0 then set(F.ended, now) end
  archive_heard()
end

-- The run's log now has the text of these notes: they are read. One that ends it counts from now on, if not before.
local function read_notes(notes, now)
  for id, note in pairs(notes) do
    if not note.read_at then
      note.read_at = now
      redis.call('HSET', K.notes, id, encode(note))
    end
    if note.priority == Priority.abort then abort_run(now) end
  end
end

-- Write the effect of a turn's end on its run: its progress, without the fields of its tools and of people. Also its
-- continuation, as high as everything the run has read or may know of. A continuation that waits already, behind
-- messages of others to the run, is not repeated; that of a run that pauses is taken back. A stopped run stays stopped.
local function move_run(w, now)
  local before = progress()
  local after = renewed(S.progress, A.run.progress)
  if before.status == RunStatus.stopped then after.status = before.status end
  set(F.progress, encode_part(after))
  if w.ends then
    drop(F.paused)
    set(F.ended, now)
    archive_heard()
    return
  end
  local said = continuations()
  if A.run.item and #said == 0 then
    A.run.item.label = visibility()
    continue_run(now, A.run.item)
  elseif after.status == RunStatus.paused then
    for _, item in ipairs(said) do
      redis.call('LREM', K.inbox, 1, item.packed)
      mark(item.dedupe, Item.cancelled, A.keep)
      set(F.waiting, count(F.waiting) - 1)
    end
    forget_inputs(A.keep)
    if count(F.waiting) == 0 and S.status == Status.queued then move(Status.idle) end
  end
end

-- Add the use of models; a session that never used any has no such field.
local function add_usage()
  local used = A.usage
  if not A.last_turn and not used.requests then return end
  local sum = S.usage and decode_part(S.usage) or {}
  for _, name in ipairs({F.requests, F.input_tokens, F.output_tokens, F.cost}) do
    sum[name] = math.min((sum[name] or 0) + (used[name] or 0), MOST)
  end
  for _, name in ipairs({F.incomplete, F.unpriced}) do sum[name] = sum[name] or used[name] end
  set(F.usage, encode_part(sum))
end

-- Use an approval or a grant, end grants, and add questions. Few writes do: its functions are made with the call.
local function change_approvals(w)
  if w.spent then
    w.spent.state = Approval.used
    put_approval(A.use, w.spent)
  end
  if w.granted then spend_grant(A.grant.id, w.granted, A.grant.call) end
  for _, one in ipairs(A.ended) do
    local packed = redis.call('HGET', K.approvals, one.id)
    if packed then end_grant(one.id, decode(packed), one.reason) end
  end
  for _, asked in ipairs(A.ask) do
    local approval = asked.approval
    approval.state, approval.generation = Approval.pending, count(F.generation)
    put_approval(asked.id, approval)
  end
end

-- Write the run's part.
local function write_run(w, now)
  read_notes(w.notes, now)
  if A.run and not S.ended and (A.last_turn or not S.turn) then move_run(w, now) end
end

local function write(release)
  local done = answered()
  if done then return done end
  read_state(K.state)
  local refusal = stale()
  if refusal then return refusal end
  local w, now = {}, now_ms()
  refusal = refuse_write(w, now)
  if refusal then return refusal end
  read_write_ahead(w)

  local before, stop = visibility(), S.stop ~= nil
  raise_taint(A.events)
  put_bodies()
  for _, event in ipairs(A.events) do append_event(now, event) end
  append_audit()
  if w.spent or w.granted or #A.ended > 0 or #A.ask > 0 then change_approvals(w) end
  w.person = A.last_turn and heard_person()
  move_items(w)
  -- Before the deliveries of this write: the parent hears the notice first.
  local risen = announce(now, before, asker_of())
  put_out(w, now)
  move_turn(w, now)
  if S.charter then write_run(w, now) end
  choose()
  add_usage()
  if A.context_seq then set(F.context_seq, A.context_seq) end
  drop(F.tries)
  touch(now)
  if release or A.release then give_back() else set(F.lease_until, now + A.lease) end
  save(K.state)
  return answer('ok', with_head({seq = count(F.seq), taint = S.taint or 'PUBLIC', now = now, stop = stop,
    ready = wakes(now), behind = w.behind, waiting = count(F.waiting), mode = S.queue_mode, risen = risen}))
end
