-- Lower an account's grant to the tokens that it kept, unless it was granted more since.
-- Arguments: account, number (of the grant that it gave back of), used, day, wanted: its used and reserved tokens.
-- Answers: ok · moved.

local all = portion_on(math.floor(now_ms() / DAY), K.grants, ALL)
local one = portion_on(0, K.grants, A.account)
if one.number == 0 then return reply('ok') end
if one.number ~= A.number then return reply('moved') end
put_grant(all, A.account, one, A.wanted)
return reply('ok')
