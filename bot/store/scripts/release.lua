-- Give a lease back without writing; a stale one changes nothing.
-- KEYS: state, approvals
-- ARGV: generation, fence, owner
-- Answers: ok ready

if not read_state(KEYS[1]) then return {'ok', 0} end
if not stale() then
  drop('owner')
  drop('until')
  drop('tries')
  save(KEYS[1])
end
return {'ok', wakes(KEYS[2], now_ms())}
