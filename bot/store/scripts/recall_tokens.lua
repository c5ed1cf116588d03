-- Take back tokens that an account was granted and neither used nor set aside, before the centre is told. After that
-- the account does not take a grant on its way of this number or an earlier one.
-- Arguments: number of the grant that the centre has for it, 0 to take nothing back.
-- Answers: ok · newer: it took a later grant, nothing changed. Both with used day wanted (used and reserved
--   tokens).

local now = now_ms()
local aside = set_aside(now)
local own, begins = own_portion(now, aside)
local wanted = own.used + aside
local fields = {used = own.used, day = own.day, wanted = wanted}
if own.number > A.number then return reply('newer', fields) end
if own.number < A.number or wanted < own.granted or (begins and A.number > 0) then
  own.number, own.granted = A.number, math.min(own.granted, wanted)
  put_own(own, begins)
end
return reply('ok', fields)
