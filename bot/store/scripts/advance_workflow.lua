-- Append events to a workflow's log of one label, unless another writer came first: a label within that of the reader
-- has another number of events than they saw. Events of other labels are counted here and shown to no reader.
-- Arguments: project, label, reader (a label), seen (a label -> its number of events), most (events of a log), many
--   (projects with a log of this label). And events (records without version, time and order).
-- Answers: ok label, appended (the records as they are kept) · moved · full, the log · many, the projects.

local done = answered()
if done then return done end
local flat, there = redis.call('HGETALL', K.versions), {}
for i = 1, #flat, 2 do there[flat[i]] = tonumber(flat[i + 1]) end
for name, length in pairs(there) do
  if within(name, A.reader) and length ~= (A.seen[name] or 0) then return reply('moved') end
end
for name, length in pairs(A.seen) do
  if length ~= (there[name] or 0) then return reply('moved') end
end
local before = there[A.label] or 0
if before + #A.events > A.most then return reply('full') end
if before == 0 and tonumber(redis.call('HGET', K.kept, A.label) or 0) >= A.many then return reply('many') end
local now, last = now_ms(), tonumber(redis.call('HGET', K.orders, A.project) or 0)
local appended = {}
for place, event in ipairs(A.events) do
  event.time, event.order = now, last + place
  appended[place] = encode(event)
end
redis.call('RPUSH', K.log, unpack(appended))
redis.call('HINCRBY', K.versions, A.label, #appended)
redis.call('HINCRBY', K.orders, A.project, #appended)
if before == 0 then redis.call('HINCRBY', K.kept, A.label, 1) end
redis.call('ZADD', K.projects, digits(now), A.project)
return answer('ok', {label = A.label, appended = appended})
