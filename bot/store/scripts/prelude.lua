-- Shared by every script. The loader puts before it, from the Python values, so that nothing is said twice:
--   SCHEMA (number), LEVELS (name -> rank), NAMES (rank -> name), MOVES (status -> set of statuses),
--   NOTICE (what a parent is told: key, kind, channel, approved, hops, text).
-- A script first reads and checks, then writes: nothing is written when it answers anything but `ok`.
-- ARGV is read in order with `arg`; every script's header names that order.

local S, changed, dropped = {}, {}, {}
local at = 0

local function arg()
  at = at + 1
  return ARGV[at]
end

local function num()
  return tonumber(arg())
end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- State ------------------------------------------------------------------------------------------------

-- Read the session's record into S; false if there is none. A newer record ends the script.
local function read_state(key)
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do S[flat[i]] = flat[i + 1] end
  if S.v and tonumber(S.v) > SCHEMA then error({err = 'LGSCHEMA ' .. S.v}) end
  return #flat > 0
end

local function set(field, value)
  S[field] = tostring(value)
  changed[#changed + 1] = field
  changed[#changed + 1] = S[field]
end

local function drop(field)
  if S[field] then
    S[field] = nil
    dropped[#dropped + 1] = field
  end
end

local function count(field)
  return tonumber(S[field] or 0)
end

local function may_move(before, after)
  return before == after or MOVES[before][after] == true
end

-- Labels -----------------------------------------------------------------------------------------------

local function rank(text)
  local level = LEVELS[string.match(text, '^%u+')]
  if not level then error({err = 'LGSCHEMA label ' .. text}) end
  return level
end

-- The label of a mixture, as policy.labels.Label.join writes it.
local function join(a, b)
  if a == b or b == 'PUBLIC' then return a end
  if a == 'PUBLIC' then return b end
  local names, seen = {}, {}
  for name in string.gmatch((string.match(a, '{(.*)}') or '') .. ',' .. (string.match(b, '{(.*)}') or ''), '[^,]+') do
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  table.sort(names)
  local inside = #names > 0 and '{' .. table.concat(names, ',') .. '}' or ''
  local untrusted = string.sub(a, -1) == '~' or string.sub(b, -1) == '~'
  return NAMES[math.max(rank(a), rank(b))] .. inside .. (untrusted and '~' or '')
end

local function compartments(text)
  local found = {}
  for name in string.gmatch(string.match(text, '{(.*)}') or '', '[^,]+') do found[name] = true end
  return found
end

-- Whether what one label covers may be known where the other may, as policy.labels.Label.flows_to says.
local function flows(a, b)
  if rank(a) > rank(b) then return false end
  local there = compartments(b)
  for name in pairs(compartments(a)) do
    if not there[name] then return false end
  end
  return true
end

-- Whether two labels are of one pool: level and compartments alike, whatever their integrity.
local function pooled(a, b)
  return flows(a, b) and flows(b, a)
end

-- What a reader must be cleared for to learn that the session exists.
local function visibility()
  return join(join(S.taint or 'PUBLIC', S.made or 'PUBLIC'), S.typed or 'PUBLIC')
end

-- Write what changed of the session's record. Every script that raises a label comes by here, so here is noted to whom the
-- session was visible when it first became UNTRUSTED: from then on what is told of it, and that it is gone, may be chosen
-- by UNTRUSTED data.
local function save(key)
  if not S.turned then
    local seen = visibility()
    if string.sub(seen, -1) == '~' then set('turned', seen) end
  end
  if #changed > 0 then redis.call('HSET', key, unpack(changed)) end
  if #dropped > 0 then redis.call('HDEL', key, unpack(dropped)) end
end

-- Log --------------------------------------------------------------------------------------------------

-- Append one event; the caller sets `seq` and saves. Few carry what was before them, the others have no such field.
local function append_event(key, now, event)
  set('seq', count('seq') + 1)
  local fields = {'v', SCHEMA, 'ts', now, 'g', S.gen, 't', event.type, 'a', event.actor,
    'l', event.label, 'w', event.visibility, 'c', event.admitted, 'u', event.turn, 'b', event.body}
  if event.carried and event.carried ~= '' then
    fields[#fields + 1] = 'f'
    fields[#fields + 1] = event.carried
  end
  redis.call('XADD', key, S.seq .. '-0', unpack(fields))
end

-- Audit chain ------------------------------------------------------------------------------------------
-- ARGV: count, and if not 0: expected n, expected hash, then per row ts, kind, actor, body, hash.
-- record: `v ts hash #kind #actor\n` kind actor body; its number is its place in the list

local function read_audit()
  local rows = {n = num(), list = {}}
  if rows.n == 0 then return rows end
  rows.expected, rows.previous = num(), arg()
  for i = 1, rows.n do rows.list[i] = {arg(), arg(), arg(), arg(), arg()} end
  return rows
end

-- The answer that tells the client to chain again, or nil when the chain is where it thought.
local function moved_head(rows)
  if rows.n > 0 and (rows.expected ~= count('an') or rows.previous ~= (S.ah or '')) then
    return {'head', S.an or '0', S.ah or ''}
  end
end

local function append_audit(key, rows)
  for _, row in ipairs(rows.list) do
    set('an', count('an') + 1)
    local head = table.concat({SCHEMA, row[1], row[5], #row[2], #row[3]}, ' ')
    redis.call('RPUSH', key, head .. '\n' .. row[2] .. row[3] .. row[4])
    set('ah', row[5])
  end
end

-- Answers to retries -----------------------------------------------------------------------------------

local OP_LIFE = 600000

local function answered(key)
  local answer = redis.call('GET', key)
  return answer and cmsgpack.unpack(answer) or nil
end

local function answer(key, reply)
  redis.call('SET', key, cmsgpack.pack(reply), 'PX', OP_LIFE)
  return reply
end

-- Closed records ---------------------------------------------------------------------------------------
-- A closed record is forgotten `keep` ms later. A small table is forgotten as a whole, when nothing in it is open:
-- one with a field that expires is kept as a hash table, which takes three times the memory.

local SMALL = 16

local function forget(key, field, keep)
  if redis.call('HLEN', key) > SMALL then redis.call('HPEXPIRE', key, keep, 'FIELDS', 1, field) end
end

-- Inbox ------------------------------------------------------------------------------------------------
-- item: `v pos at label #dedupe #sender sent\n` dedupe sender body; sent is 1 for one that another session sent
-- idem field: `v pos status nonce digest`, and for one from another session `seq`: that of the event that let it in, 0
-- before that, `-` for one that was held, whatever became of it

local function item_place(item)
  local pos, size, start = string.match(item, '^%d+ (%d+) %d+ %S+ (%d+) %d+ %d\n()')
  return tonumber(pos), string.sub(item, start, start + tonumber(size) - 1)
end

-- Give an input its terminal (or taken) status; a terminal one is forgotten after `keep` ms. A taken one was let in by
-- the event `seq`.
local function mark(key, dedupe, status, keep, seq)
  local known = redis.call('HGET', key, dedupe)
  if not known then return end
  local v, pos, rest, was = string.match(known, '^(%d+) (%d+) %S+ (%S+ %S+) ?(%S*)$')
  local noted = (was == '0' and seq) or (was ~= '' and was) or nil
  redis.call('HSET', key, dedupe, table.concat({v, pos, status, rest, noted}, ' '))
  if keep then forget(key, dedupe, keep) end
end

local function item_label(item)
  return string.match(item, '^%d+ %d+ %d+ (%S+)')
end

-- When an item came, who sent it, and whether through another session.
local function item_origin(item)
  local at, a, b, sent, start = string.match(item, '^%d+ %d+ (%d+) %S+ (%d+) (%d+) (%d)\n()')
  local sender = start + tonumber(a)
  return tonumber(at), string.sub(item, sender, sender + tonumber(b) - 1), sent == '1'
end

local function taken_items()
  local taken = {}
  for field, dedupe in pairs(S) do
    if string.sub(field, 1, 6) == 'taken:' then taken[field] = dedupe end
  end
  return taken
end

-- Let the dedupe keys go, when all inputs have ended; accept holds them again.
local function forget_inputs(key, keep)
  if count('wait') == 0 and next(taken_items()) == nil then redis.call('PEXPIRE', key, keep) end
end

-- How many of what sessions send may wait: fewer than what people say, and in a room of their own.
local function sent_limit(limit)
  return math.ceil(limit / 2)
end

-- Whether an inbox has no room for one more item of a label, from a sender. Room is for each level and its compartments:
-- what waits from above tells nothing below (law no_read_up). It is apart for what people say and for what sessions
-- send, so that people always find a place. Where others speak too, nobody has more waiting than there is room left, so
-- that there is some for everybody. All that waits is at least as many, so it is looked into only where there may be too
-- many.
local function crowded(inbox, label, limit, sender, sent)
  local shared, room, own = sender ~= S.who, sent and sent_limit(limit) or limit, 0
  local waiting = count('wait')
  if waiting < room and not (shared and waiting * 2 >= room) then return false end
  for _, item in ipairs(redis.call('LRANGE', inbox, 0, -1)) do
    local _, from, through = item_origin(item)
    if through == sent and pooled(item_label(item), label) then
      room = room - 1
      if from == sender then own = own + 1 end
    end
  end
  return room <= 0 or (shared and own >= room)
end

-- Append an input behind those that wait; the caller saves. `body` stands for a large one in its record, `seq` is nil
-- for one that no session sent.
local function put_item(inbox, idem, now, item)
  set('pos', count('pos') + 1)
  set('wait', count('wait') + 1)
  set('typed', join(S.typed or 'PUBLIC', item.label))
  set('moved', now)
  if S.status == 'idle' or S.status == 'failed' or (S.status == 'awaiting_input' and not S.turn) then
    set('status', 'queued')
  end
  local head = table.concat({SCHEMA, S.pos, now, item.label, #item.dedupe, #item.sender, item.seq and 1 or 0}, ' ')
  redis.call('RPUSH', inbox, head .. '\n' .. item.dedupe .. item.sender .. item.body)
  redis.call('HSET', idem, item.dedupe, table.concat({SCHEMA, S.pos, 'waiting', item.nonce, item.digest, item.seq}, ' '))
  redis.call('PERSIST', idem)
end

-- Cancel everything that waits; returns it.
local function cancel_waiting(inbox, idem, keep)
  local items = redis.call('LRANGE', inbox, 0, -1)
  for _, item in ipairs(items) do
    local _, dedupe = item_place(item)
    mark(idem, dedupe, 'cancelled', keep)
  end
  if #items > 0 then
    redis.call('DEL', inbox)
    set('wait', 0)
  end
  return items
end

-- Held items -------------------------------------------------------------------------------------------
-- What another session sent and this one's readers may not know of yet. Nothing else of the session tells of them.
-- field: `v at label #dedupe #sender #digest report\n` dedupe sender digest body; report is 1 for that of a background
-- session, which has a place of its own

local function held_item(record)
  local label, a, b, c, report, start = string.match(record, '^%d+ %d+ (%S+) (%d+) (%d+) (%d+) (%d)\n()')
  local sender = start + tonumber(a)
  local digest = sender + tonumber(b)
  local body = digest + tonumber(c)
  return {label = label, report = report == '1', dedupe = string.sub(record, start, sender - 1), sender = string.sub(record, sender, digest - 1),
    digest = string.sub(record, digest, body - 1), body = string.sub(record, body)}
end

local function put_held(key, id, now, item)
  local head = table.concat({SCHEMA, now, item.label, #item.dedupe, #item.sender, #item.digest,
    item.report and 1 or 0}, ' ')
  redis.call('HSET', key, id, head .. '\n' .. item.dedupe .. item.sender .. item.digest .. item.body)
end

-- Endorsements -----------------------------------------------------------------------------------------
-- What bounded answers may endorse in a conversation and all below it since a person's last message, one record each:
-- `run label bits till heard;`, in thousandths of a bit. A charge is forgotten by what those may know of at whose label
-- it was made, and by nothing else.

local function charges()
  local list = {}
  for run, label, bits, till, heard in string.gmatch(S.bits or '', '(%S+) (%S+) (%d+) (%d+) (%d);') do
    list[#list + 1] = {run = run, label = label, bits = tonumber(bits), till = tonumber(till), heard = tonumber(heard)}
  end
  return list
end

local function charge_record(one)
  return string.format('%s %s %.0f %.0f %d;', one.run, one.label, one.bits, one.till, one.heard)
end

-- A person spoke: what was heard before is no longer counted, what may still come is. The caller saves.
local function forget_charges(label, now)
  local kept = ''
  for _, one in ipairs(charges()) do
    local gone = (one.heard == 1 or one.till <= now) and flows(label, one.label)
    if not gone then kept = kept .. charge_record(one) end
  end
  if kept == '' then drop('bits') else set('bits', kept) end
end

-- The answer of a run enters the inbox with a label. The caller saves.
local function heard_charge(run, label)
  if not S.bits then return end
  local all = ''
  for _, one in ipairs(charges()) do
    if one.run == run and flows(label, one.label) then one.heard = 1 end
    all = all .. charge_record(one)
  end
  set('bits', all)
end

-- Approvals --------------------------------------------------------------------------------------------
-- field: `v state gen expires #by\n` by, the rest as JSON

local function approval(record)
  local state, gen, expires, size, start = string.match(record, '^%d+ (%l+) (%d+) (%d+) (%d+)\n()')
  return {state = state, gen = gen, expires = tonumber(expires), tail = string.sub(record, start + tonumber(size))}
end

local function put_approval(key, id, a, by)
  local record = table.concat({SCHEMA, a.state, a.gen, a.expires, #by}, ' ') .. '\n' .. by .. a.tail
  redis.call('HSET', key, id, record)
  return record
end

-- Whether an approval of this generation is pending and not past its time.
local function asking(key, now)
  local flat = redis.call('HGETALL', key)
  for i = 2, #flat, 2 do
    local a = approval(flat[i])
    if a.state == 'pending' and a.gen == S.gen and a.expires > now then return true end
  end
  return false
end

local function cancel_approvals(key, by)
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do
    local a = approval(flat[i + 1])
    if a.state == 'pending' then
      a.state = 'cancelled'
      put_approval(key, flat[i], a, by)
    end
  end
end

-- Pairings ---------------------------------------------------------------------------------------------
-- field `a:<account>` or `t:<principal>`: `v state asked expires scope digest`; for tries the digest is their count

local function pairing(record)
  if not record then return nil end
  local v, state, asked, expires, scope, digest = string.match(record, '^(%d+) (%l+) (%d+) (%d+) (%S+) (%S+)$')
  if tonumber(v) > SCHEMA then error({err = 'LGSCHEMA ' .. v}) end
  return {state = state, asked = asked, expires = tonumber(expires), scope = scope, digest = digest}
end

local function pairing_record(p)
  local times = string.format('%d %d', p.asked, p.expires)
  return table.concat({SCHEMA, p.state, times, p.scope, p.digest}, ' ')
end

local function put_pairing(key, account, p)
  redis.call('HSET', key, 'a:' .. account, pairing_record(p))
end

-- Channels ---------------------------------------------------------------------------------------------

-- The channels named in ARGV from a place on, as a set; nil where there are none.
local function served(first)
  local channels
  for i = first, #ARGV do
    channels = channels or {}
    channels[ARGV[i]] = true
  end
  return channels
end

-- Whether the session's home is on one of these channels, nil being all.
local function lives_on(channels)
  return not channels or channels[string.match(S.home or '', '^[^:]*')] == true
end

-- Turn and lease ---------------------------------------------------------------------------------------
-- turn: `attempt suspended pos started`, its usage as six numbers, `\n`, the rest as JSON

local function suspended()
  return S.turn and string.match(S.turn, '^%d+ (%d)') == '1'
end

-- The open turn's id, whom it is for, and the position of the input that began it.
local function open_turn()
  local pos, rest = string.match(S.turn, '^%d+ %d (%d+)[^\n]*\n(.*)$')
  rest = cjson.decode(rest)
  return rest[1], rest[3], tonumber(pos)
end

-- Ask the open turn to stop. The questions of a suspended one are cancelled, so that a worker can end it.
local function stop_turn(approvals, actor)
  set('stop', actor)
  if suspended() then
    cancel_approvals(approvals, actor)
    if S.status == 'awaiting_input' then set('status', 'queued') end
  end
end

local function held(now)
  return S.owner ~= nil and count('until') > now
end

-- Whether a worker has something to do: an input and no open turn, a turn whose worker vanished, or a
-- suspended one that no question holds any more.
local function ripe(approvals, now)
  if not S.turn then return count('wait') > 0 end
  return not suspended() or not asking(approvals, now)
end

-- 1 if the session should be marked ready.
local function wakes(approvals, now)
  return (not held(now) and ripe(approvals, now)) and 1 or 0
end

-- The refusal for a claim that does not hold the session any more, or nil.
-- ARGV: generation, fence, owner
local function stale()
  local gen, fence, owner = arg(), arg(), arg()
  if not S.gen then return {'stale'} end
  if S.gen ~= gen then return {'reset'} end
  if S.fence ~= fence or S.owner ~= owner then return {'stale'} end
end

-- Outbox -----------------------------------------------------------------------------------------------
-- field: `v state n gen created attempt until op channel #sender\n` sender, the rest as JSON, its address first; before
-- the `\n` for one that another session was to hear: what that did with it; then how often it failed, if it did; then
-- `!` for one that people have tried again though it may have been said; then `=` and what the channel calls what was
-- said.
-- `until` is when a sender's hold ends, and of a pending one when it may be tried again.

local OUT = '^%d+ (%l+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%d+) ?(%l*) ?(%d*) ?(!?) ?=?(%S*)\n()'
local DEAD = {ambiguous = true, failed = true, expired = true}
local NEVER = 9999999999999

local function delivery(record)
  local state, n, gen, created, attempt, till, op, channel, size, arrival, fails, doubt, receipt, start =
    string.match(record, OUT)
  local split = start + tonumber(size)
  return {state = state, n = tonumber(n), gen = gen, created = created, attempt = tonumber(attempt),
    till = tonumber(till), op = op, channel = channel, arrival = arrival, fails = tonumber(fails) or 0,
    doubt = doubt == '!', receipt = receipt, sender = string.sub(record, start, split - 1), tail = string.sub(record, split)}
end

local function put_delivery(key, name, d)
  local head = {SCHEMA, d.state, d.n, d.gen, d.created, d.attempt, d.till, d.op, d.channel, #d.sender}
  if d.arrival and d.arrival ~= '' then head[#head + 1] = d.arrival end
  if d.fails and d.fails > 0 then head[#head + 1] = d.fails end
  if d.doubt then head[#head + 1] = '!' end
  if d.receipt and d.receipt ~= '' then head[#head + 1] = '=' .. d.receipt end
  local record = table.concat(head, ' ') .. '\n' .. d.sender .. d.tail
  redis.call('HSET', key, name, record)
  return record
end

-- Add a delivery, once; the caller saves.
local function add_delivery(key, name, now, d)
  if redis.call('HEXISTS', key, name) == 1 then return end
  set('on', count('on') + 1)
  set('out', count('out') + 1)
  d.n, d.gen, d.created = S.on, S.gen, now
  put_delivery(key, name, d)
  redis.call('PERSIST', key)
end

local function unsettled(d)
  return d.state == 'pending' or d.state == 'sending'
end

-- Let a background session that has ended take the report of one that it spawned; the caller saves.
local function wake_ended()
  drop('done')
  if S.status == 'archived' then set('status', 'idle') end
end

-- Whether people may still decide on it: what a reset left behind is nobody's any more.
local function dead_letter(d)
  return DEAD[d.state] and d.gen == S.gen
end

-- Note until when the session may have dead letters, for the sweep; those in doubt are kept until people decide.
local function left_unsaid(d, till)
  if dead_letter(d) then set('dead', d.state == 'ambiguous' and NEVER or math.max(count('dead'), till)) end
end

local function address_of(d)
  return string.match(d.tail, '^%["([^"]*)"')
end

local function label_of(d)
  return string.match(d.tail, '^%["[^"]*",%s*"([^"]*)"')
end

-- Whether something is unsettled that whoever may know of the session may know of. What it passed on unread may be above
-- that, and so is what its person is told of what it sent.
local function unheard(key)
  if count('out') == 0 then return false end
  local seen, flat = visibility(), redis.call('HVALS', key)
  for _, record in ipairs(flat) do
    local d = delivery(record)
    if unsettled(d) and flows(label_of(d), seen) then return true end
  end
  return false
end

-- Archive a background session that has ended, once all that it said was heard or never will be. Nothing but what its
-- own visibility covers decides that. The caller has written down what is unsettled, and saves.
local function archive_heard(outbox)
  if S.kin and S.done and not S.turn and count('wait') == 0 and not unheard(outbox) then set('status', 'archived') end
end

-- All deliveries, oldest first, each with its key and record.
local function deliveries(key)
  local flat, list = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    local d = delivery(flat[i + 1])
    d.key, d.record = flat[i], flat[i + 1]
    d.address = address_of(d)
    list[#list + 1] = d
  end
  table.sort(list, function(a, b) return a.n < b.n end)
  return list
end

-- Let the deliveries go, when all are settled; the next one holds them again. With dead letters among them, which stay
-- longer, and one in doubt until people decide, each goes by itself. Only where there may be some is the whole outbox
-- read; the caller has written down what is unsettled and dead, and saves.
local function forget_deliveries(key, keep, keep_dead)
  if count('out') > 0 then return end
  local all, dead = count('dead') > 0 and deliveries(key) or {}, false
  for _, d in ipairs(all) do dead = dead or dead_letter(d) end
  if not dead then
    drop('dead')
    redis.call('PEXPIRE', key, keep)
    return
  end
  for _, d in ipairs(all) do
    local letter = dead_letter(d)
    if not (letter and d.state == 'ambiguous') then
      redis.call('HPEXPIRE', key, letter and keep_dead or keep, 'NX', 'FIELDS', 1, d.key)
    end
  end
end

-- Background sessions ----------------------------------------------------------------------------------

-- Tell the parent of a background session, once, if that rises above it here: what the parent had read at the spawn does
-- not cover what this session has read from now on. The notice is as high as the session was `before`; `asker` is who
-- set this going. Returns 1 if there is one. The caller saves.
local function announce(outbox, now, before, asker)
  if not S.kin then return 0 end
  local kin = cjson.decode(S.kin)
  if not flows(before, kin.known) or flows(visibility(), kin.known) then return 0 end
  local facts = {S.home, before, NOTICE.kind, '', NOTICE.approved, NOTICE.hops, 0, asker ~= S.who and asker or ''}
  -- As Python writes them, since the outbox compares addresses as they are written.
  local written = string.gsub(cjson.encode(facts), '\\/', '/')
  add_delivery(outbox, kin.run .. NOTICE.key, now, {state = 'pending', attempt = 0, till = 0, op = '-',
    channel = NOTICE.channel, sender = '', tail = written .. '\n' .. NOTICE.text})
  return 1
end

-- Pace -------------------------------------------------------------------------------------------------
-- All of it hints. channel and place: `until` when something may be said there again, and when a rate has room again in
-- the rate's field; place: `n` counts turns, `last` is the op that last took none, and a text's turn has a field that
-- `keys.turn_field` names: `turn till op`, op `-` if it waits; dead addresses: `w` and `-` say that nothing came in from
-- there since a text, or what takes no turn, was last let through

local PACE_LIFE = 3600000

local function is_wait(field)
  return string.sub(field, 1, 2) == 'w:'
end

local function wait_of(record)
  local turn, till, op = string.match(record or '', '^(%d+) (%d+) (%S+)$')
  return tonumber(turn), tonumber(till), op
end

-- Return the field that says of a text, or of what takes no turn, whether something came in since.
local function since(mine)
  return mine == '' and '-' or 'w'
end

-- Keep a text's turn, and the place for an hour after it.
local function put_wait(key, field, turn, till, op)
  redis.call('HSET', key, field, table.concat({turn, till, op}, ' '))
  redis.call('PEXPIRE', key, till - now_ms() + PACE_LIFE)
end
