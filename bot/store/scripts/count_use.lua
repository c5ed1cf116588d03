-- Count that memories were recalled, at the label of the recalling session, and note that label: without memories of
-- it, its version is 0.
-- Arguments: ids, label.
-- Answers: ok.

local done = answered()
if done then return done end
for _, id in ipairs(A.ids) do redis.call('HINCRBY', K.uses, id, 1) end
redis.call('HSETNX', K.versions, A.label, 0)
return answer('ok')
