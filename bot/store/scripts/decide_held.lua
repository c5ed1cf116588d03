-- Let a held item into the inbox, or drop it, by a person's decision. A background session that has ended takes the
-- report of one that it spawned, as on its arrival. If the item is above the session's parent, a notice to that comes
-- first.
-- Arguments: id, accept, op, keep ms, limit, audit.
-- Answers: ok ready principal background, the audit head · none · busy · head.

local done = answered()
if done then return done end
if not read_state(K.state) then return reply('none') end
local now, packed = now_ms(), redis.call('HGET', K.held, A.id)
if not packed then return reply('none') end
local item = decode(packed)
if S.ended and (S.charter or not item.report) and A.accept then return reply('none') end
local bar = A.accept and not S.ended and barred()
if bar then return bar end
item.sent, item.held = true, true
if A.accept and crowded(item, A.limit) then return reply('busy') end
local refusal = moved_head()
if refusal then return refusal end

if S.lineage then decode_part(S.lineage) end
redis.call('HDEL', K.held, A.id)
forget(K.held_ids, item.dedupe, A.keep)
if redis.call('EXISTS', K.held) == 0 then redis.call('PEXPIRE', K.held_ids, A.keep) end
if A.accept then
  local before = visibility()
  wake_ended()
  put_item(now, A.op, item)
  announce(now, before, item.sender)
end
append_audit()
save(K.state)
return answer('ok', with_head(with_pool({ready = A.accept})))
