-- Replace a schedule and its timer, if it is unchanged since it was read.
-- Arguments: id, timer (its name), before and after (all fields of a schedule), keep ms, audit.
-- Answers: ok, the audit head · changed · head.

local done = answered()
if done then return done end
read_state(K.head)
local packed = redis.call('HGET', K.schedules, A.id)
if not packed then return reply('changed') end
local stored = decode(packed)
for field, value in pairs(A.before) do
  if BLANK[value] then value = nil end
  if stored[field] ~= value then return reply('changed') end
end
local refusal = moved_head()
if refusal then return refusal end
if A.audit then
  set(F.version, SCHEMA)
  append_audit()
  save(K.head)
end
put_schedule(A.id, A.timer, renewed(packed, A.after), A.keep)
return answer('ok', with_head({}))
