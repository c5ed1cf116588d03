-- Keep a changed skill, and a line of its log, unless another change came first. A new one, of revision 1, is kept once
-- for its id, unless its principal has as many in its pool as may be. A repeated call at another label finds the skill
-- of the first one, as long as answers are kept.
-- Arguments: id, skill (a record without its version), event (the same), label, most (of a new one).
-- Answers: ok skill (the record that is kept) · ok label, at which it is kept · full · moved, another change came
--   first.

local new = A.skill.revision == 1
local packed = redis.call('HGET', K.skills, A.id)
local old = packed and decode(packed)
if old and new then return reply('ok', {skill = packed}) end
local done = answered()
if done then return done end
if (old and old.revision or 0) + 1 ~= A.skill.revision then return reply('moved') end
if new and tonumber(redis.call('HGET', K.kept, A.skill.pool) or 0) >= A.most then return reply('full') end
local before = old and old.state ~= SkillState.rejected and 1 or 0
local after = A.skill.state ~= SkillState.rejected and 1 or 0
local event = encode(A.event)
local written = put_known(K.skills, A.id, renewed(packed, A.skill))
if before ~= after then redis.call('HINCRBY', K.kept, A.skill.pool, after - before) end
redis.call('LPUSH', K.log, event)
redis.call('LTRIM', K.log, 0, MOST_EVENTS - 1)
answer('ok', {label = A.label})
return reply('ok', {skill = written})
