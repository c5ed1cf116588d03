-- Note that a session cannot be worked. Its next input wakes it again.
-- Answers: ok.

if not read_state(K.state) then return reply('ok') end
local bar = barred()
if bar then return bar end
if not leased(now_ms()) and may_move(S.status, Status.failed) then
  move(Status.failed)
  save(K.state)
end
return reply('ok')
