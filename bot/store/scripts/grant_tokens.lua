-- Grant an account more of the budget of all, so that it has at least what it wants: that, or a part of the day's budget
-- where there is enough of it. What it has already is granted anew if it took that and gave it back since.
-- Arguments: account, number (of the grant that it took last), used, day, wanted (what it must have in all); and tokens,
--   part, most, none of these for what is used already, which is granted in any case
-- Answers: ok number granted time · short lack: what nobody used does not suffice (used), or only not as long as others
--   have it (held)

local now = now_ms()
local all = portion_on(math.floor(now / DAY), K.grants, ALL)
local one = portion_on(0, K.grants, A.account)
local more = math.max(0, A.wanted - one.granted)
if A.most then
  if A.tokens > A.most - all.used then return reply('short', {lack = 'used'}) end
  -- More may be granted than there is, as models used more than was set aside: then nobody takes any of it.
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
