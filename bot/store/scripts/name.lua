-- Give a session a title, or take it away.
-- Arguments: title (text, label), none to take it away
-- Answers: ok · none

if not read_state(K.state) then return reply('none') end
if A.title then set('title', encode_part(named(A.title))) else drop('title') end
save(K.state)
return reply('ok')
