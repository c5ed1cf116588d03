-- Give a lease back without writing, so that another worker continues; a stale one changes nothing.
-- Arguments: claim.
-- Answers: ok ready.

if not read_state(K.state) then return reply('ok') end
local now = now_ms()
if not stale() then
  count_active(now)
  local turn = open_turn()
  if turn and not turn.suspended then
    turn.handed = (turn.handed or 0) + 1
    set(F.turn, encode_part(turn))
  end
  give_back()
  drop(F.tries)
  save(K.state)
end
return reply('ok', {ready = wakes(now)})
