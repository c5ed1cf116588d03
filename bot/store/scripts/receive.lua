-- Take a message of another session, once: into the inbox if its label flows to this session's taint, otherwise among
-- the held items. These are shown only to readers cleared for them: nothing else of this session changes. Nothing is
-- created: a session that is gone or was reset takes nothing. A session that has ended takes the reports of those that
-- it spawned and nothing else, and a run that has ended not even those. A report always has room. Other messages use
-- the room of their level and compartments: that of the inbox for messages of sessions, or that of held items. A result
-- with `hold` is held regardless of its label; one that enters is charged no longer.
-- A sender whose own readers may not know of this session, or of that label, learns nothing of either: for them the
-- message is taken. Without room it is then held, and without room for held items it is dropped.
-- Arguments: item (label, dedupe, sender, body, refs, digest, report), op, generation, limit, id (of a held item).
--   And most (held of a label), run, hold, told (the clearance of the sender's readers).
-- Answers: ok status principal background · failed code · busy; the status `untold` is that of a message of which no
--   reader is to be told.

local item = A.item
item.sent = true

-- Whether as many items of this label are held as may be.
local function full()
  local taken = 0
  for _, kept in pairs(records(K.held)) do
    if not kept.report and pooled(kept.label, item.label) then taken = taken + 1 end
  end
  return taken >= A.most
end

if not read_state(K.state) or illegal() == IllegalMove.hidden then return reply('failed', {code = 'absent'}) end
local above = not (flows(visibility(), A.told) and flows(item.label, A.told))
local function refused(code)
  return above and reply('ok', {status = 'untold'}) or reply('failed', {code = code})
end

local packed = redis.call('HGET', K.held_ids, item.dedupe)
if packed then return reply('ok', {status = decode(packed).untold and 'untold' or Item.held}) end
packed = redis.call('HGET', K.inputs, item.dedupe)
if packed then
  local known = decode(packed)
  return reply('ok', {status = known.held and Item.held or known.status})
end
if count(F.generation) ~= A.generation then return reply('failed', {code = 'reset'}) end
if S.ended and (S.charter or not item.report) then return refused('ended') end
if not S.ended and illegal() then return refused('archived') end
local now = now_ms()
local fits = not A.hold and flows(item.label, S.taint or 'PUBLIC')
local room = item.report or not fits or not crowded(item, A.limit)
if not room and not above then return reply('busy') end
if fits and room then
  put_bodies()
  wake_ended()
  heard_charge(A.run, item.label)
  put_item(now, A.op, item)
  save(K.state)
  return reply('ok', with_pool({status = Item.waiting}))
end
if not item.report and full() then return refused('full') end
put_bodies()
redis.call('HSET', K.held_ids, item.dedupe, encode({untold = not room}))
redis.call('PERSIST', K.held_ids)
put_held(A.id, now, item)
return reply('ok', {status = room and Item.held or 'untold'})
