-- Take what another session sent, once: into the inbox if its label flows to what this session has read by now,
-- otherwise among the held items, of which nobody hears who is not cleared for them: nothing else of this session
-- changes. Nothing is created: a session that is gone or was reset takes nothing. One that has ended takes the reports of
-- what it spawned and nothing else. A report has a place of its own everywhere; anything else has one of those that the
-- inbox has for what sessions send, or that are held, of one level and compartments. A result that is to be held is held
-- whatever its label; one that enters is charged no longer.
-- A sender whose own readers may not know of this session, or not of what has that label, learns nothing of either: for
-- them it is taken. What finds no room then is held, and if there is none of that either, it is let go.
-- KEYS: state, inbox, idem, held, held ids, [body]
-- ARGV: dedupe, digest, nonce, sender, label, body, report, generation, limit, held id, most held of a label,
--       run or '', hold, what the sender's readers may know, [large body]
-- Answers: ok status · failed code · busy; the status `untold` is that of one which nobody is to hear of

local item = {dedupe = arg(), digest = arg(), nonce = arg(), sender = arg(), label = arg(), body = arg(),
  report = arg() == '1', seq = 0}
local generation, limit, id, most, run, hold, told = arg(), num(), arg(), num(), arg(), arg() == '1', arg()

-- Whether as many items of this label are held as may.
local function full()
  local taken = 0
  for _, record in ipairs(redis.call('HVALS', KEYS[4])) do
    local kept = held_item(record)
    if not kept.report and pooled(kept.label, item.label) then taken = taken + 1 end
  end
  return taken >= most
end

if not read_state(KEYS[1]) then return {'failed', 'absent'} end
local above = not (flows(visibility(), told) and flows(item.label, told))
local function refused(code)
  return above and {'ok', 'untold'} or {'failed', code}
end

local was_held = redis.call('HGET', KEYS[5], item.dedupe)
if was_held then return {'ok', was_held == SCHEMA .. ' untold' and 'untold' or 'held'} end
local known = redis.call('HGET', KEYS[3], item.dedupe)
if known then
  local status, seq = string.match(known, '^%d+ %d+ (%l+) %S+ %S+ ?(%S*)$')
  return {'ok', seq == '-' and 'held' or status}
end
if S.gen ~= generation then return {'failed', 'reset'} end
if S.done and not item.report then return refused('ended') end
if S.status == 'archived' and not S.done then return refused('archived') end
local now = now_ms()
local fits = not hold and flows(item.label, S.taint or 'PUBLIC')
local room = item.report or not fits or not crowded(KEYS[2], item.label, limit, item.sender, true)
if not room and not above then return {'busy'} end
if fits and room then
  if KEYS[6] then redis.call('SET', KEYS[6], arg()) end
  wake_ended()
  heard_charge(run, item.label)
  put_item(KEYS[2], KEYS[3], now, item)
  save(KEYS[1])
  return {'ok', 'waiting'}
end
if not item.report and full() then return refused('full') end
if KEYS[6] then redis.call('SET', KEYS[6], arg()) end
redis.call('HSET', KEYS[5], item.dedupe, SCHEMA .. (room and '' or ' untold'))
redis.call('PERSIST', KEYS[5])
put_held(KEYS[4], id, now, item)
return {'ok', room and 'held' or 'untold'}
