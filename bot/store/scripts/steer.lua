-- Give a run a steering note, once for its id. A note that ends it counts at once where the run may know of it, and
-- otherwise from when it is read. The number of unread notes of one level is limited.
-- Arguments: id, note (priority, text, label, sender), most, audit.
-- Answers: ok, the audit head · none · busy · head.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if not S.charter or S.ended then return reply('none') end
if redis.call('HEXISTS', K.notes, A.id) == 1 then return reply('ok', with_head({})) end
local note, room, now = A.note, A.most, now_ms()
note.time = now
for _, other in pairs(records(K.notes)) do
  if not other.read_at and pooled(other.label, note.label) then room = room - 1 end
  -- No two have the same time, so that their order is clear.
  note.time = math.max(note.time, other.time + 1)
end
if room <= 0 then return reply('busy') end
local refusal = moved_head()
if refusal then return refusal end
if note.priority == Priority.abort and flows(note.label, visibility()) then abort_run(now) end
redis.call('HSET', K.notes, A.id, encode(note))
append_audit()
save(K.state)
return reply('ok', with_head({}))
