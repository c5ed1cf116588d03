-- Count the outcome of an applied skill, at the label of the reporting session, and note that label: without skills of
-- it, its version is 0.
-- Arguments: field (the skill and the outcome), note (a record without its version), if there is one, label.
-- Answers: ok.

local done = answered()
if done then return done end
redis.call('HINCRBY', K.outcomes, A.field, 1)
if A.note then
  redis.call('LPUSH', K.notes, encode(A.note))
  redis.call('LTRIM', K.notes, 0, MOST_NOTES - 1)
end
redis.call('HSETNX', K.versions, A.label, 0)
return answer('ok')
