-- Charge the bits that a background session's answer may endorse to the conversation that its tree began in. Nothing is
-- charged beyond the rest of the limit since a person's last message there. Only charges at a label that flows to this
-- one count: higher ones must not be revealed. The order of answers carries information too: the nth charged answer may
-- come at n places, unless its call fixes the place (`at_once`). The same run again is charged once.
-- Arguments: generation, run, charge (label, millibits, lapses, at_once), most.
-- Answers: ok charged.

if not read_state(K.state) or count(F.generation) ~= A.generation then return reply('ok') end
local bar = barred()
if bar then return bar end
if S[CHARGE .. A.run] then return reply('ok', {charged = true}) end
local one, spent, n = A.charge, 0, 1
for _, other in pairs(charges()) do
  if flows(other.label, one.label) then
    spent = spent + (other.millibits or 0)
    if not other.at_once then n = n + 1 end
  end
end
if not one.at_once then one.millibits = (one.millibits or 0) + math.ceil(1000 * math.log(n) / math.log(2)) end
if spent + one.millibits > A.most then return reply('ok') end
set(CHARGE .. A.run, encode_part(one))
save(K.state)
return reply('ok', {charged = true})
