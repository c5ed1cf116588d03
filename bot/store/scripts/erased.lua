-- Note that a deleted session is completely erased.
-- Answers: ok.

if read_state(K.state) and S.erasing then
  drop(F.erasing)
  save(K.state)
end
return reply('ok')
