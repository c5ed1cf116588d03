-- Grant an account more of the budget of all, so that it has at least the wanted number. If enough is left, it gets a
-- part of the day's budget. Its present grant is repeated if it took that and gave it back since.
-- Arguments: account, number (of its last grant), used, day, wanted (the least total). And tokens, part, most: none of
--   these for tokens that are used already, which are granted in any case.
-- Answers: ok number granted time · short lack: the unused tokens do not suffice (used), or only while others have
--   them (held).

local now = now_ms()
local all = portion_on(math.floor(now / DAY), K.grants, ALL)
local one = portion_on(0, K.grants, A.account)
local more = math.max(0, A.wanted - one.granted)
if A.most then
  if A.tokens > A.most - all.used then return reply('short', {lack = 'used'}) end
  -- More may be granted than there is, as models used more than was set aside: then no account takes any of it.
  local room = A.most - all.granted
  if more > room then return reply('short', {lack = 'held'}) end
  if more > 0 then more = math.max(more, math.min(A.part, math.floor(room / 8))) end
end
if more > 0 or one.number <= A.number then
  all.number = math.max(all.number, A.number) + 1
  one.number = all.number
  put_grant(all, A.account, one, one.granted + more)
end
return reply('ok', {number = one.number, granted = one.granted, time = now})
