-- Give a session a title, or remove it.
-- Arguments: title (text, label), none to remove it.
-- Answers: ok · none.

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
if A.title then set(F.title, encode_part(A.title)) else drop(F.title) end
save(K.state)
return reply('ok')
