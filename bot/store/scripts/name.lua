-- Give a session a title, or take it away.
-- KEYS: state
-- ARGV: label and title, or ''
-- Answers: ok · none

if not read_state(KEYS[1]) then return {'none'} end
local title = arg()
if title == '' then drop('title') else set('title', title) end
save(KEYS[1])
return {'ok'}
