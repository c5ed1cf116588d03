-- Append an input to a session's inbox once, creating the session. A background session is created with its task, and a
-- run with its goal, by this one step (law child_dominates_its_task), and only while a place is reserved for it. If the
-- task is above its parent, no reader of the parent is told: not even the creation may depend on data above (ADR 0014).
-- If the session's mode is to interrupt, the open turn of the input's own sender is asked to stop.
-- Arguments: item (label, dedupe, sender, body, refs, digest), op, home, principal, creation, limit.
--   Of a new session: lineage of a background session or charter of a run, reserved (until when), agent (its pin),
--   memory (the chosen use of memories), metadata (text, label).
--   Of an input: unless_asked (leave it out where its sender may be asked something), asked (whether they may).
--   Also mode (the queue mode from now on), reader (the clearance at which the session must exist and be visible).
--   And created_with: the digest of a program's values for the session, the same if it exists.
-- Answers: ok position status duplicate stopping principal taint creation inbox_label created · conflict · busy ·
--   foreign · move before · asked · none · sealed.

local item, dedupe = A.item, A.item.dedupe
local exists = read_state(K.state)

-- With the id of the open turn that is to stop, and the fields for the hints of listings.
local function accepted(position, status, duplicate)
  return reply('ok', {position = position, status = status, duplicate = duplicate,
    stopping = S.turn and S.stop and open_turn().id, principal = S.principal, taint = S.taint or 'PUBLIC',
    creation = S.creation or 'PUBLIC', inbox_label = S.inbox_label or 'PUBLIC', rests = S.paused ~= nil,
    created = S.created})
end

local packed = redis.call('HGET', K.inputs, dedupe)
local known = packed and decode(packed)
local there = exists and S.status ~= Status.deleted
-- A reader who may know of a session writes in it: for any other it never was (law no_read_up). A retry for a lost
-- reply was in time, though it may have raised the session itself.
if A.reader and not (known and known.op == A.op) then
  if not (there and S.principal == A.principal and flows(visibility(), A.reader)) then return reply('none') end
end
-- A session that was deleted leaves its key to the next one, while its inputs are still known.
if A.created_with and exists and not there then return barred() end
if A.created_with and there and S.created_with ~= A.created_with then return reply('conflict') end

if known then
  -- The digests of a deleted session's inputs are not kept.
  if known.digest and known.digest ~= item.digest then return reply('conflict') end
  return accepted(known.position, known.status, known.op ~= A.op)
end
-- The input it was created with is forgotten some time after its end, its digest is not.
if A.created_with and there then return accepted(0, Item.consumed, true) end
-- A private chat that belongs to another person by now: earlier messages in it are not theirs.
if exists and S.principal ~= A.principal then return reply('foreign') end
local bar = barred()
if bar then return bar end
if not exists and redis.call('EXISTS', K.sealed) == 1 then return reply('sealed') end
-- A run that has ended takes nothing any more, though something that it said may not be heard yet.
if S.charter and S.ended then return reply('move', {before = Status.archived}) end
-- An input accepted before is that input for ever, and a full inbox prevents no answer.
if A.unless_asked and (A.asked or redis.call('EXISTS', K.asked) == 1) then return reply('asked') end
if crowded(item, A.limit) then return reply('busy') end

local now = now_ms()
if (A.lineage or A.charter) and now > A.reserved then return reply('busy') end
if not exists then
  begin_session(now, A.home, A.principal, A.creation, A.agent)
  if A.memory then set(F.memory, A.memory) end
  if A.created_with then set(F.created_with, A.created_with) end
  if A.metadata then set(F.metadata, encode_part(A.metadata)) end
  if A.lineage then set(F.lineage, encode_part(A.lineage)) end
  if A.charter then set(F.charter, encode_part(A.charter)) end
  append_event(now, {type = 'session.created', actor = item.sender, label = A.creation})
end
-- No mode is the usual one.
if A.mode == QueueMode.collect then drop(F.queue_mode) elseif A.mode then set(F.queue_mode, A.mode) end
-- A turn is read only where it may be interrupted: else a broken one waits for the worker, and costs no message.
local turn = S.queue_mode == QueueMode.interrupt and open_turn()
if turn and turn.suspended then read_ahead(K.approvals) end
put_bodies()
-- Only a person's own words: a forward is another's.
if string.sub(item.label, -1) ~= '~' then forget_charges(item.label, now) end
-- An input that comes while a turn runs, or right after it, may be followed by more.
if S.turn or leased(now) or (S.late and count(F.waiting) > 0) then set(F.late, true) else drop(F.late) end
put_item(now, A.op, item)
if turn then
  -- Until the message that began it was admitted, later ones are admitted behind that.
  if turn.sender == item.sender and S['taken:' .. (turn.position or 0)] then
    stop_turn(item.sender, Approval.superseded)
  end
end
save(K.state)
return accepted(count(F.position), Item.waiting, false)
