-- Append an input to a session's inbox once, creating the session. A background session is created with its task by
-- this one step (law child_dominates_its_task), and only while its slot is reserved. If the task is above its parent,
-- nobody is told: not even that it was made may depend on what is above (ADR 0014). If the session's mode is to
-- interrupt, the open turn of whoever sends it is asked to stop.
-- KEYS: state, log, inbox, idem, approvals, [body]
-- ARGV: dedupe, digest, nonce, sender, label, body, home, principal, creation, limit, lineage or '', reserved until,
--       [large body]
-- Answers: ok position status duplicate stopping principal taint creation typed · conflict · busy · foreign · move before after

local dedupe, digest, nonce, sender, label, body = arg(), arg(), arg(), arg(), arg(), arg()
local home, principal, creation, limit, lineage, reserved = arg(), arg(), arg(), num(), arg(), num()
local exists = read_state(KEYS[1])
-- After the open turn that is to stop, what the listing's hints are made of.
local function accepted(pos, status, duplicate)
  local stopping = S.turn and S.stop and open_turn() or ''
  return {'ok', pos, status, duplicate, stopping, S.who, S.taint or 'PUBLIC', S.made or 'PUBLIC', S.typed or 'PUBLIC'}
end

local known = redis.call('HGET', KEYS[4], dedupe)
if known then
  local pos, status, by, said = string.match(known, '^%d+ (%d+) (%l+) (%S+) (%S+)$')
  if said ~= digest then return {'conflict'} end
  return accepted(pos, status, by == nonce and 0 or 1)
end
-- A private chat that is another person's by now: what was said in it before is not his.
if exists and S.who ~= principal then return {'foreign'} end
if S.status == 'archived' then return {'move', 'archived', 'queued'} end
if crowded(KEYS[3], label, limit, sender, false) then return {'busy'} end

local now = now_ms()
if lineage ~= '' and now > reserved then return {'busy'} end
if not exists then
  set('v', SCHEMA)
  set('gen', 1)
  set('gseq', 1)
  set('status', 'idle')
  set('made', creation)
  set('home', home)
  set('who', principal)
  set('born', now)
  if lineage ~= '' then set('kin', lineage) end
  append_event(KEYS[2], now, {type = 'session.created', actor = sender, label = creation, visibility = 'internal',
    admitted = 0, turn = '', body = '{}'})
end
if KEYS[6] then redis.call('SET', KEYS[6], arg()) end
-- Only a person's own words: a forward is another's.
if S.bits and string.sub(label, -1) ~= '~' then forget_charges(label, now) end
-- What comes while a turn runs, or right behind it, may be followed by more.
if S.turn or held(now) or (S.late and count('wait') > 0) then set('late', 1) else drop('late') end
put_item(KEYS[3], KEYS[4], now, {dedupe = dedupe, digest = digest, nonce = nonce, sender = sender, label = label,
  body = body})
if S.mode == 'interrupt' and S.turn then
  local _, asker, pos = open_turn()
  -- Until what began it was let in, what comes is let in behind that.
  if asker == sender and S['taken:' .. pos] then stop_turn(KEYS[5], sender) end
end
save(KEYS[1])
return accepted(S.pos, 'waiting', 0)
