-- Keep a schedule with its timer, once for its id, unless its principal has as many active ones of its label's pool as
-- may be.
-- Arguments: id, timer (its name), schedule, most, keep ms, audit.
-- Answers: ok, the audit head · full · head.

local done = answered()
if done then return done end
read_state(K.head)
if redis.call('HEXISTS', K.schedules, A.id) == 1 then return reply('ok', with_head({})) end
local room, gone = A.most, {}
for _, id in ipairs(redis.call('SMEMBERS', K.theirs)) do
  local packed = redis.call('HGET', K.schedules, id)
  local other = packed and decode(packed)
  if not other then
    gone[#gone + 1] = id
  elseif other.status == ScheduleStatus.active and pooled(other.label, A.schedule.label) then
    room = room - 1
  end
end
if room <= 0 then return reply('full') end
local refusal = moved_head()
if refusal then return refusal end
set(F.version, SCHEMA)
append_audit()
save(K.head)
for _, id in ipairs(gone) do redis.call('SREM', K.theirs, id) end
redis.call('SADD', K.theirs, A.id)
put_schedule(A.id, A.timer, A.schedule, A.keep)
return answer('ok', with_head({}))
