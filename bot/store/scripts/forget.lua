-- Erase the words of a memory, and of all that it corrects of its label, down to the first. The rest stays: its
-- existence, and the references to it.
-- Arguments: id, label.
-- Answers: ok kept, whether it counted until now.

local done = answered()
if done then return done end
local chain, seen, id = {}, {}, A.id
while id and not seen[id] do
  seen[id] = true
  local packed = redis.call('HGET', K.memories, id)
  local memory = packed and decode(packed)
  if not memory then break end
  if memory.state ~= MemoryState.forgotten then chain[#chain + 1] = {id = id, memory = memory} end
  id = memory.corrects
end
local first = chain[1]
local counted = first and first.id == A.id and not first.memory.state
local now = now_ms()
for _, one in ipairs(chain) do
  local memory = one.memory
  memory.state, memory.text, memory.domain, memory.ended = MemoryState.forgotten, '', '', now
  put_known(K.memories, one.id, memory)
end
if #chain > 0 then redis.call('HINCRBY', K.kept, A.label, -#chain) end
return answer('ok', {kept = counted})
