-- Put the names of an installation's keys, unless others were put there since they were read.
-- Arguments: names (the record as it is to be stored), seen (the record as it was read, absent for none).
-- Answers: ok · moved, others are there.

local found = redis.call('GET', K.names)
-- A call whose reply was lost finds its own names.
if found == A.names then return reply('ok') end
if found ~= (A.seen or false) then return reply('moved') end
redis.call('SET', K.names, A.names)
return reply('ok')
