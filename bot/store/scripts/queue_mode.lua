-- Say how a session takes what comes while a turn runs.
-- KEYS: state, audit, op
-- ARGV: mode or '' for the usual one, audit rows
-- Answers: ok an ah · none · head n hash

local done = answered(KEYS[3])
if done then return done end
if not read_state(KEYS[1]) then return {'none'} end
local mode = arg()
local rows = read_audit()
local refusal = moved_head(rows)
if refusal then return refusal end
if mode == '' then drop('mode') else set('mode', mode) end
append_audit(KEYS[2], rows)
save(KEYS[1])
return answer(KEYS[3], {'ok', S.an or '0', S.ah or ''})
