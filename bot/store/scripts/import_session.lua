-- Create a session of the events of an export, at once and archived: none of it exists before all of it does. Its taint
-- is the fold of the admitted events (law taint_is_the_fold). They keep their times; the last one, about the import,
-- has none and gets one. An existing session is left as it is.
-- Arguments: events (records with their time), home, principal, creation, title, last_turn, audit.
-- Answers: ok, the audit head · exists · head · sealed.

local done = answered()
if done then return done end
if read_state(K.state) then return reply('exists') end
if redis.call('EXISTS', K.sealed) == 1 then return reply('sealed') end
local refusal = moved_head()
if refusal then return refusal end

local now, taint = now_ms(), 'PUBLIC'
set(F.version, SCHEMA)
set(F.generation, 1)
set(F.generation_seq, 1)
set(F.status, Status.archived)
set(F.home, A.home)
set(F.principal, A.principal)
set(F.created, now)
set(F.updated, now)
put_bodies()
for _, event in ipairs(A.events) do
  if event.admitted then taint = join(taint, event.label) end
  append_event(event.time or now, event)
end
set_label(F.taint, taint)
set_label(F.creation, A.creation)
if A.title then set(F.title, encode_part(A.title)) end
if A.last_turn then set(F.last_turn, encode_part(A.last_turn)) end
append_audit()
save(K.state)
return answer('ok', with_head({}))
