-- Append an input to a session's inbox once, creating the session. A background session is created with its task by
-- this one step (law child_dominates_its_task), and only while its slot is reserved. If the task is above its parent,
-- nobody is told: not even that it was made may depend on what is above (ADR 0014). If the session's mode is to
-- interrupt, the open turn of whoever sends it is asked to stop.
-- Arguments: item (label, dedupe, sender, body, refs, digest), op, home, principal, creation, limit,
--   lineage of a background session, reserved (until when), agent (what the session pins when it is created),
--   unless_asked (whether it is left out where its sender may be asked something), asked (whether they may)
-- Answers: ok position status duplicate stopping principal taint creation inbox_label · conflict · busy · foreign
--   move before · asked

local item, dedupe = A.item, A.item.dedupe
local exists = read_state(K.state)

-- After the open turn that is to stop, what the listing's hints are made of.
local function accepted(position, status, duplicate)
  return reply('ok', {position = position, status = status, duplicate = duplicate,
    stopping = S.turn and S.stop and open_turn().id, principal = S.principal, taint = S.taint or 'PUBLIC',
    creation = S.creation or 'PUBLIC', inbox_label = S.inbox_label or 'PUBLIC', rests = S.paused ~= nil})
end

local packed = redis.call('HGET', K.inputs, dedupe)
if packed then
  local known = decode(packed)
  -- Of an input of a session that was deleted nobody keeps what it was.
  if known.digest and known.digest ~= item.digest then return reply('conflict') end
  return accepted(known.position, known.status, known.op ~= A.op)
end
-- A private chat that is another person's by now: what was said in it before is not his.
if exists and S.principal ~= A.principal then return reply('foreign') end
local bar = barred()
if bar then return bar end
-- What was taken in before is that input for ever, and a full inbox keeps nobody from an answer.
if A.unless_asked and (A.asked or redis.call('EXISTS', K.asked) == 1) then return reply('asked') end
if crowded(item, A.limit) then return reply('busy') end

local now = now_ms()
if A.lineage and now > A.reserved then return reply('busy') end
if not exists then
  set(F.version, SCHEMA)
  set(F.generation, 1)
  set(F.generation_seq, 1)
  set(F.status, Status.idle)
  set_label(F.creation, A.creation)
  set(F.home, A.home)
  set(F.principal, A.principal)
  set(F.created, now)
  if A.agent then set(F.agent, A.agent) end
  if A.lineage then set(F.lineage, encode_part(A.lineage)) end
  append_event(now, {type = 'session.created', actor = item.sender, label = A.creation})
end
-- A turn is read only where it may be interrupted: else a broken one waits for the worker, and costs no message.
local turn = S.queue_mode == QueueMode.interrupt and open_turn()
if turn and turn.suspended then read_ahead(K.approvals) end
put_bodies()
-- Only a person's own words: a forward is another's.
if string.sub(item.label, -1) ~= '~' then forget_charges(item.label, now) end
-- What comes while a turn runs, or right behind it, may be followed by more.
if S.turn or leased(now) or (S.late and count(F.waiting) > 0) then set(F.late, true) else drop(F.late) end
put_item(now, A.op, item)
if turn then
  -- Until what began it was let in, what comes is let in behind that.
  if turn.sender == item.sender and S['taken:' .. (turn.position or 0)] then
    stop_turn(item.sender, Approval.superseded)
  end
end
save(K.state)
return accepted(count(F.position), Item.waiting, false)
