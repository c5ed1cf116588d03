-- Charge what a background session's answer may endorse to the conversation that its tree began in, unless that is more
-- than is left since a person's last message there. Only what was charged at a label that flows to this one counts:
-- what is higher may not be told of. The order in which answers come tells something too: the answer that is the nth to
-- be charged for may come at n places. The same run again is charged once.
-- KEYS: state
-- ARGV: generation, run, label, thousandths of a bit, until when it comes, most
-- Answers: ok 1 if it was charged

local generation, one = arg(), {run = arg(), label = arg(), bits = num(), till = num(), heard = 0}
local most = num()
if not read_state(KEYS[1]) or S.gen ~= generation then return {'ok', 0} end
local spent, n = 0, 1
for _, other in ipairs(charges()) do
  if other.run == one.run then return {'ok', 1} end
  if flows(other.label, one.label) then spent, n = spent + other.bits, n + 1 end
end
one.bits = one.bits + math.ceil(1000 * math.log(n) / math.log(2))
if spent + one.bits > most then return {'ok', 0} end
set('bits', (S.bits or '') .. charge_record(one))
save(KEYS[1])
return {'ok', 1}
