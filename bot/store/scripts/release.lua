-- Give a lease back without writing; a stale one changes nothing.
-- Arguments: claim
-- Answers: ok ready

if not read_state(K.state) then return reply('ok') end
if not stale() then
  give_back()
  drop(F.tries)
  save(K.state)
end
return reply('ok', {ready = wakes(now_ms())})
