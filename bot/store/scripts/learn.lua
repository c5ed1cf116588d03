-- Keep a memory, once for its id, unless its principal has as many of its label with words as may be. It corrects a
-- memory of its own label here; one of another label is not in these keys. A repeated call at another label finds the
-- memory of the first one, as long as answers are kept.
-- Arguments: id, memory (a record without its version), label, most.
-- Answers: ok memory (the record that is kept under the id) · ok label, at which it is kept · full · none, as
--   the memory to correct is not kept any more.

local packed = redis.call('HGET', K.memories, A.id)
if packed then
  decode(packed)
  return reply('ok', {memory = packed})
end
local done = answered()
if done then return done end
local memory = A.memory
local before = memory.corrects and redis.call('HGET', K.memories, memory.corrects)
local old = before and decode(before)
if old and old.state then return reply('none') end
if tonumber(redis.call('HGET', K.kept, A.label) or 0) >= A.most then return reply('full') end
if old then
  old.state, old.corrected_by, old.ended = MemoryState.corrected, A.id, memory.created
  put_known(K.memories, memory.corrects, old)
end
redis.call('HINCRBY', K.kept, A.label, 1)
packed = put_known(K.memories, A.id, memory)
answer('ok', {label = A.label})
return reply('ok', {memory = packed})
