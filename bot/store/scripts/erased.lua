-- Note that nothing is left of a session that was deleted.
-- Answers: ok

if read_state(K.state) and S.erasing then
  drop(F.erasing)
  save(K.state)
end
return reply('ok')
