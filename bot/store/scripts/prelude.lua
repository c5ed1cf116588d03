-- Shared by the scripts: each is given the parts that it uses. Before a server gets it, the loader writes values from
-- Python into it, so that no value is written twice and none is looked up while it runs.
-- Names that stand for their values:
--   Status, IllegalMove, Item, Approval, Question, Delivery, QueueMode, RunStatus, EndReason, Breaker, Priority,
--   ScheduleStatus, MemoryState and SkillState with a word of theirs.
--   K with the name of a key of the script.
--   NOTICE (the notice to a parent), NEEDS_INPUT and TURN_COMPLETED (a reason and a type), SCHEMA.
--   MOST (the largest number of a record), MOST_EVENTS and MOST_NOTES (the lengths of lists), CHANGED (a channel).
--   TURN_SPAN (between two places of a pool) and CLOCKS_APART (ms that the clocks of two nodes may differ).
--   CONTINUE (the beginning of dedupe keys of continuations) and LARGE (the index of the first large body's key).
-- Tables: LEVELS (name -> rank), LEVEL_NAMES (rank -> name), ILLEGAL (status -> the effect on the script there) and DEAD
--   (set of delivery states). MOVES is a text with `before>after` of each move between spaces: a table of so many takes
--   longer to make than all its uses.
-- A field that `bot.store.records.names` names becomes its stored name: `one.label`, `{label = ...}`, and F.label,
-- which stands for the name itself. So records, arguments and answers are read and written as they are.
-- A script reads its arguments from A, a map; its header lists them. The texts of large bodies stand apart, in the
-- order of their keys. A script first reads and checks, then writes: it writes nothing when its answer is not `ok`.

local A = cmsgpack.unpack(ARGV[1])
local S, pending = {}, {}

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A whole number as text: Lua itself writes a large one with an exponent.
local function digits(number)
  return string.format('%d', number)
end

-- The members of a list as a set; nil where there are none.
local function set_of(list)
  if not list or #list == 0 then return nil end
  local found = {}
  for _, member in ipairs(list) do found[member] = true end
  return found
end

-- Answers ----------------------------------------------------------------------------------------------
-- A word, then names with their values. Values that are nil or false are left out.

local function reply(word, fields)
  local flat, size = {word}, 1
  for name, value in pairs(fields or {}) do
    if value then
      flat[size + 1], flat[size + 2] = name, value == true and 1 or value
      size = size + 2
    end
  end
  return flat
end

local OP_LIFE = 600000

-- The answer to an earlier try of the same call, or nil.
local function answered()
  local packed = redis.call('GET', K.op)
  return packed and cmsgpack.unpack(packed) or nil
end

-- Keep an answer for the retries of the call.
local function answer(word, fields)
  local flat = reply(word, fields)
  redis.call('SET', K.op, cmsgpack.pack(flat), 'PX', OP_LIFE)
  return flat
end

-- Records ----------------------------------------------------------------------------------------------
-- Flat maps. A field that no script knows is written as it was read, whether or not Python knows it.

local function check(version)
  local number = tonumber(version)
  if not number then error({err = 'LGRECORD'}) end
  if number ~= SCHEMA then error({err = 'LGSCHEMA ' .. digits(number)}) end
end

-- Read a record inside another one, which has no version of its own.
local function decode_part(packed)
  local record = cmsgpack.unpack(packed)
  if type(record) ~= 'table' then error({err = 'LGRECORD'}) end
  return record
end

local function decode(packed)
  local record = decode_part(packed)
  if record.version ~= SCHEMA then check(record.version) end
  return record
end

local BLANK = {[0] = true, [''] = true, [false] = true}

-- A record without blank fields: for a reader an absent field is blank.
local function lean(record)
  local full = {}
  for field, value in pairs(record) do
    if not BLANK[value] then full[field] = value end
  end
  return full
end

-- Write a record inside another one.
local function encode_part(record)
  for _, value in pairs(record) do
    if BLANK[value] then return cmsgpack.pack(lean(record)) end
  end
  return cmsgpack.pack(record)
end

local function encode(record)
  record.version = SCHEMA
  return encode_part(record)
end

-- Replace a record by a map with all fields that Python knows: fields that Python does not know are kept.
local function renewed(packed, map)
  local record = packed and decode_part(packed) or {}
  for field, value in pairs(map) do
    if BLANK[value] then record[field] = nil else record[field] = value end
  end
  return record
end

-- All records of a hash, by field.
local function records(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = decode(flat[i + 1]) end
  return found
end

-- Read the records of hashes that a script uses after its first write: an unreadable one ends it before.
local function read_ahead(...)
  for _, key in ipairs({...}) do records(key) end
end

-- State ------------------------------------------------------------------------------------------------

local function may_move(before, after)
  return string.find(MOVES, ' ' .. before .. '>' .. after .. ' ', 1, true) ~= nil
end

-- The effect of the session's status on this script, nil where the status allows it.
local function illegal()
  return ILLEGAL[S.status]
end

-- The answer of this script where the session's status does not allow it, or nil. `done` is the answer if it is
-- ignored.
local function barred(done)
  local how = illegal()
  if how == IllegalMove.hidden then return reply('none') end
  if how == IllegalMove.refused then return reply('move', {before = S.status}) end
  return how and (done or reply('ok'))
end

-- The lineage or charter of a session that people do not talk to; nil for a conversation.
local function background()
  return S.lineage or S.charter
end

-- Read the session's record into S; false if there is none. A record of another version ends the script.
local function read_state(key)
  local flat = redis.call('HGETALL', key)
  for i = 1, #flat, 2 do S[flat[i]] = flat[i + 1] end
  if #flat == 0 then return false end
  check(S.version)
  if S.status and not may_move(S.status, S.status) then error({err = 'LGRECORD'}) end
  -- `rests` reads it after writes.
  if S.paused and background() then decode_part(background()) end
  return true
end

local function drop(field)
  if S[field] then
    S[field] = nil
    pending[field] = false
  end
end

-- Change a field; zero is left out, as an absent field is zero.
local function set(field, value)
  if value == 0 then return drop(field) end
  if type(value) == 'number' then value = digits(value) end
  S[field] = value == true and '1' or value
  pending[field] = S[field]
end

-- Change a label; PUBLIC is left out.
local function set_label(field, label)
  if label == 'PUBLIC' then drop(field) else set(field, label) end
end

local function count(field)
  return tonumber(S[field] or 0)
end

-- The time of the session's last change.
local function updated_ms()
  return tonumber(S.updated) or 0
end

-- Note the time of a change; it never falls, as another node's clock may be late.
local function touch(now)
  set(F.updated, math.max(now, updated_ms()))
end

-- Change the session's status. A status that may not follow is a fault of ours, and ends the script.
local function move(after)
  if S.status == after then return end
  if not may_move(S.status, after) then error({err = 'LGMOVE ' .. S.status .. ' ' .. after}) end
  set(F.status, after)
end

-- The fields of the record with this beginning of their names, and their values.
local function fields_of(prefix)
  local found, size = {}, #prefix
  for field, value in pairs(S) do
    -- Most fields are shorter, and making a string of each would cost more than all else here.
    if #field > size and string.sub(field, 1, size) == prefix then found[field] = value end
  end
  return found
end

-- Labels -----------------------------------------------------------------------------------------------

local function rank(text)
  local level = LEVELS[string.match(text, '^%u+')]
  if not level then error({err = 'LGRECORD'}) end
  return level
end

-- The label of a mixture, as policy.labels.Label.join computes it.
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
  return LEVEL_NAMES[math.max(rank(a), rank(b))] .. inside .. (untrusted and '~' or '')
end

local function compartments(text)
  local found = {}
  for name in string.gmatch(string.match(text, '{(.*)}') or '', '[^,]+') do found[name] = true end
  return found
end

-- Whether data of one label may be known at the other, as policy.labels.Label.flows_to.
local function flows(a, b)
  if rank(a) > rank(b) then return false end
  local there = compartments(b)
  for name in pairs(compartments(a)) do
    if not there[name] then return false end
  end
  return true
end

-- Whether data of one label adds nothing to the other, as policy.labels.Label.within.
local function within(a, b)
  return flows(a, b) and (string.sub(a, -1) ~= '~' or string.sub(b, -1) == '~')
end

-- Whether two labels are of one pool: level and compartments alike, regardless of integrity.
local function pooled(a, b)
  return flows(a, b) and flows(b, a)
end

-- The clearance that a reader needs to learn that the session exists.
local function visibility()
  return join(join(S.taint or 'PUBLIC', S.creation or 'PUBLIC'), S.inbox_label or 'PUBLIC')
end

-- The session's record as HGETALL would return it after `save`, in which all values are text.
local function state_fields()
  local flat, size = {}, 0
  for field, value in pairs(S) do
    flat[size + 1], flat[size + 2] = field, value
    size = size + 2
  end
  return flat
end

-- Write the changes of the session's record. Every script that raises a label comes by here, so the session's
-- visibility is noted here when it first became UNTRUSTED. From then on UNTRUSTED data may choose the answers about the
-- session, also that it is gone.
local function save(key)
  if not S.turned then
    local seen = visibility()
    if string.sub(seen, -1) == '~' then set(F.turned, seen) end
  end
  local changed, size, dropped = {}, 0, {}
  for field, value in pairs(pending) do
    if value then
      changed[size + 1], changed[size + 2] = field, value
      size = size + 2
    else
      dropped[#dropped + 1] = field
    end
  end
  if size > 0 then redis.call('HSET', key, unpack(changed)) end
  if #dropped > 0 then redis.call('HDEL', key, unpack(dropped)) end
  -- A hint for waiting listeners: a user who may not publish writes all the same.
  redis.pcall('PUBLISH', CHANGED, key)
end

-- Keep the large bodies of a call under their own keys.
local function put_bodies()
  for i = LARGE, #KEYS do redis.call('SET', KEYS[i], ARGV[i - LARGE + 2]) end
end

-- Log --------------------------------------------------------------------------------------------------

-- Append one event, a record without its time and generation; the caller saves.
local function append_event(now, event)
  set(F.seq, count(F.seq) + 1)
  event.time, event.generation = now, count(F.generation)
  redis.call('XADD', K.log, S.seq .. '-0', 'e', encode(event))
end

-- Audit chain ------------------------------------------------------------------------------------------
-- A.audit, if there are rows: `seq` and `hash` of the record that they follow, `rows`, which are records, and `head`,
-- the hash of the last one. The number of a record is its place in the list.

-- Return an answer's fields with the head of the chain, and with the fence at the last loss that was noted before it.
local function with_head(fields)
  fields.audit_seq, fields.audit_hash, fields.truncated = S.audit_seq, S.audit_hash, S.truncated
  return fields
end

-- The answer that tells the client to chain again, or nil when the chain's head is the one it knew.
local function moved_head()
  if A.audit and (A.audit.seq ~= count(F.audit_seq) or A.audit.hash ~= (S.audit_hash or '')) then
    return reply('head', with_head({}))
  end
end

-- Append the rows to a chain; the caller saves.
local function append_audit()
  if not A.audit then return end
  redis.call('RPUSH', K.audit, unpack(A.audit.rows))
  set(F.audit_seq, count(F.audit_seq) + #A.audit.rows)
  set(F.audit_hash, A.audit.head)
end

-- Closed records ---------------------------------------------------------------------------------------
-- A closed record is forgotten `keep` ms later. A small table is forgotten as a whole, when no record in it is open. A
-- table with a field that expires is kept as a hash table, which takes three times the memory.

local SMALL = 16

local function forget(key, field, keep)
  if redis.call('HLEN', key) > SMALL then redis.call('HPEXPIRE', key, keep, 'FIELDS', 1, field) end
end

-- Inbox ------------------------------------------------------------------------------------------------

-- All waiting inputs, oldest first, each with its stored record.
local function waiting_items(most)
  local list = redis.call('LRANGE', K.inbox, 0, most and most - 1 or -1)
  for i, packed in ipairs(list) do
    list[i] = decode(packed)
    list[i].packed = packed
  end
  return list
end

-- The input of a dedupe key, nil if there is none.
local inputs = {}
local function input_of(dedupe)
  local packed = not inputs[dedupe] and redis.call('HGET', K.inputs, dedupe)
  if packed then inputs[dedupe] = decode(packed) end
  return inputs[dedupe]
end

-- Read the inputs of these dedupe keys, as `read_ahead` does.
local function read_inputs_ahead(dedupes)
  for _, dedupe in pairs(dedupes) do input_of(dedupe) end
end

-- Give an input its terminal (or taken) status; a terminal one is forgotten after `keep` ms. The event `seq` admitted a
-- taken one; it is noted for a message of a session that was never held.
local function mark(dedupe, status, keep, seq)
  local input = input_of(dedupe)
  if not input then return end
  if seq and input.sent and not input.held then input.seq = input.seq or tonumber(seq) end
  input.status = status
  redis.call('HSET', K.inputs, dedupe, encode(input))
  if keep then forget(K.inputs, dedupe, keep) end
end

local function taken_items()
  return fields_of('taken:')
end

-- Let the dedupe keys go, when all inputs have ended; accept holds them again.
local function forget_inputs(keep)
  if count(F.waiting) == 0 and next(taken_items()) == nil then redis.call('PEXPIRE', K.inputs, keep) end
end

-- How many messages of sessions may wait: fewer than people's messages, and in a room of their own.
local function sent_limit(limit)
  return math.ceil(limit / 2)
end

-- Whether an inbox has no room for one more item. Room is for each level and its compartments: items from above reveal
-- nothing below (law no_read_up). People's messages and those of sessions have separate rooms, so that people always
-- find a place. In a shared chat no person may have more waiting than there is room left, so that there is some for
-- everyone. The number of all waiting items is an upper bound, so they are read only if that is too high.
local function crowded(item, limit)
  local sent = item.sent or false
  local shared, room, own = item.sender ~= S.principal, sent and sent_limit(limit) or limit, 0
  local waiting = count(F.waiting)
  if waiting < room and not (shared and waiting * 2 >= room) then return false end
  for _, other in ipairs(waiting_items()) do
    if (other.sent or false) == sent and pooled(other.label, item.label) then
      room = room - 1
      if other.sender == item.sender then own = own + 1 end
    end
  end
  return room <= 0 or (shared and own >= room)
end

-- Append an input behind the waiting ones; the caller saves. `item` has label, dedupe, sender, body, refs and digest,
-- and tells whether a session sent it and whether it was held.
local function put_item(now, op, item)
  set(F.position, count(F.position) + 1)
  set(F.waiting, count(F.waiting) + 1)
  set_label(F.inbox_label, join(S.inbox_label or 'PUBLIC', item.label))
  touch(now)
  if S.status == Status.idle or S.status == Status.failed or (S.status == Status.awaiting_input and not S.turn) then
    move(Status.queued)
  end
  redis.call('RPUSH', K.inbox, encode({position = count(F.position), accepted_at = now, label = item.label,
    dedupe = item.dedupe, sender = item.sender, sent = item.sent, part = item.part, body = item.body, refs = item.refs}))
  redis.call('HSET', K.inputs, item.dedupe, encode({position = count(F.position), status = Item.waiting, op = op,
    digest = item.digest, sent = item.sent, held = item.held}))
  redis.call('PERSIST', K.inputs)
end

-- Cancel all waiting inputs; returns them.
local function cancel_waiting(keep)
  local items, dedupes = waiting_items(), {}
  for i, item in ipairs(items) do dedupes[i] = item.dedupe end
  read_inputs_ahead(dedupes)
  for _, item in ipairs(items) do mark(item.dedupe, Item.cancelled, keep) end
  if #items > 0 then
    redis.call('DEL', K.inbox)
    set(F.waiting, 0)
  end
  return items
end

-- Held items -------------------------------------------------------------------------------------------
-- Messages of other sessions that this one's readers may not know of yet. Nothing else of the session reveals them.

local function put_held(id, now, item)
  redis.call('HSET', K.held, id, encode({time = now, label = item.label, dedupe = item.dedupe, sender = item.sender,
    digest = item.digest, report = item.report, body = item.body, refs = item.refs}))
end

-- Endorsements -----------------------------------------------------------------------------------------
-- The bits that bounded answers may endorse in a conversation and below it since a person's last message: a field
-- `charge:<run>` each, in thousandths of a bit. A charge is forgotten by events that readers at its label may know of,
-- and by nothing else.

local CHARGE = 'charge:'

local function charges()
  local found = fields_of(CHARGE)
  for field, packed in pairs(found) do found[field] = decode_part(packed) end
  return found
end

-- A person spoke: charges of answers heard before count no longer, those of answers that may still come do. The caller
-- saves.
local function forget_charges(label, now)
  for field, one in pairs(charges()) do
    if (one.heard or one.lapses <= now) and flows(label, one.label) then drop(field) end
  end
end

-- The answer of a run enters the inbox with a label. The caller saves.
local function heard_charge(run, label)
  local one = S[CHARGE .. run] and decode_part(S[CHARGE .. run])
  if one and flows(label, one.label) then
    one.heard = true
    set(CHARGE .. run, encode_part(one))
  end
end

-- Approvals --------------------------------------------------------------------------------------------

-- The time by which rights end. A node with a late clock may have taken over: so it is no earlier than the caller saw at
-- any node, A.seen, or than the session's last change. A right that ended stays so.
local function latest_ms(now)
  return math.max(now, A.seen or 0, updated_ms())
end

local function put_approval(id, approval)
  local packed = encode(approval)
  redis.call('HSET', K.approvals, id, packed)
  return packed
end

-- Whether an approval of this generation is pending and not expired.
local function asking(now)
  for _, approval in pairs(records(K.approvals)) do
    if approval.state == Approval.pending and approval.generation == count(F.generation)
        and approval.expires > latest_ms(now) then
      return true
    end
  end
  return false
end

-- Cancel all questions to people; a `state` tells that a message took their place.
local function cancel_approvals(by, state)
  for id, approval in pairs(records(K.approvals)) do
    if approval.state == Approval.pending then
      approval.state, approval.resolved_by = state or Approval.cancelled, by
      put_approval(id, approval)
    end
  end
end

-- Grants: an approval that was given for further calls. The same call spends one use only.

local function covered(approval, call)
  return string.find(' ' .. (approval.granted_to or '') .. ' ', ' ' .. call .. ' ', 1, true) ~= nil
end

local function grants(approval, call, now)
  return approval.generation == count(F.generation) and not approval.granted_end
    and (approval.granted_until or 0) > latest_ms(now)
    and ((approval.granted_left or 0) > 0 or covered(approval, call))
end

local function spend_grant(id, approval, call)
  if covered(approval, call) then return end
  approval.granted_left = approval.granted_left - 1
  approval.granted_to = approval.granted_to and approval.granted_to .. ' ' .. call or call
  put_approval(id, approval)
end

-- End a grant, once: the first reason stays. Tell whether it was ended now.
local function end_grant(id, approval, reason)
  if (approval.granted_until or 0) == 0 or approval.granted_end then return false end
  approval.granted_end = reason
  put_approval(id, approval)
  return true
end

-- Channels ---------------------------------------------------------------------------------------------

-- Whether the session's home is on one of these channels, nil for all.
local function lives_on(channels)
  return not channels or channels[string.match(S.home or '', '^[^:]*')] == true
end

-- Token budget ------------------------------------------------------------------------------------------
-- The tokens that are set aside for running model requests: a field `aside:<id>` each. Those of a worker that is gone
-- are charged in full, as their use is unknown.

local ASIDE = 'aside:'

local function charge_tokens(tokens)
  set(F.tokens, math.min(count(F.tokens) + tokens, MOST))
end

-- The caller saves.
local function charge_asides()
  for field, tokens in pairs(fields_of(ASIDE)) do
    charge_tokens(tonumber(tokens))
    drop(field)
  end
end

-- Turn and lease ---------------------------------------------------------------------------------------

-- The open turn, nil if there is none.
local opened, opened_from
local function open_turn()
  if S.turn ~= opened_from then opened, opened_from = S.turn and decode_part(S.turn), S.turn end
  return opened
end

local function suspended()
  return S.turn and open_turn().suspended
end

-- Ask the open turn to stop. The questions of a suspended one are cancelled, so that a worker can end it.
local function stop_turn(actor, state)
  set(F.stop, actor)
  if suspended() then
    cancel_approvals(actor, state)
    if S.status == Status.awaiting_input then move(Status.queued) end
  end
end

local function leased(now)
  return S.owner ~= nil and count(F.lease_until) > now
end

-- Append an event for a person's operation on the session as a whole; the caller saves. While a worker holds the
-- session only that one writes the log, and the operation is in the audit alone.
local function tell(name)
  local now = now_ms()
  touch(now)
  if leased(now) then return end
  append_event(now, {type = name, actor = A.actor, label = 'PUBLIC', visibility = 'user'})
end

local function give_back()
  drop(F.owner)
  drop(F.lease_until)
  drop(F.since)
end

-- Add the time until `till` that its worker held it to the open turn, unless that waits for people; the caller saves.
local function count_active(till)
  local turn = open_turn()
  if not turn or turn.suspended or not S.since then return end
  turn.active = (turn.active or 0) + math.max(till - count(F.since), 0)
  set(F.turn, encode_part(turn))
end

-- Whether a session that is paused waits for people. A background session after its deadline does not: its parent waits
-- for its end, or its principal for that of a run.
local function rests(now)
  return S.paused and not (background() and (decode_part(background()).deadline or 0) <= now)
end

-- Whether a worker has work here: an input and no open turn, a turn whose worker vanished, or a suspended one without a
-- pending question. In a session that is paused no turn begins, and a suspended one continues only to be stopped.
local function ripe(now)
  if not S.turn then return not rests(now) and count(F.waiting) > 0 end
  if suspended() and not S.stop and rests(now) then return false end
  return not suspended() or not asking(now)
end

-- Whether the session should be marked ready.
local function wakes(now)
  return not leased(now) and ripe(now)
end

-- Return an answer's fields with those of the session's pool in the queue of ready sessions.
local function with_pool(fields)
  fields.principal, fields.background = S.principal, background() ~= nil
  return fields
end

-- The refusal for a claim that does not hold the session any more, or nil. A.claim: generation, fence, owner.
local function stale()
  if not S.generation then return reply('stale') end
  if count(F.generation) ~= A.claim.generation then return reply('reset') end
  if count(F.fence) ~= A.claim.fence or S.owner ~= A.claim.owner then return reply('stale') end
end

-- Outbox -----------------------------------------------------------------------------------------------

local NEVER = 9999999999999

local function put_delivery(key, delivery)
  local packed = encode(delivery)
  redis.call('HSET', K.outbox, key, packed)
  return packed
end

-- Add a delivery, once; the caller saves.
local function add_delivery(key, now, delivery)
  if redis.call('HEXISTS', K.outbox, key) == 1 then return end
  set(F.last_delivery, count(F.last_delivery) + 1)
  set(F.undelivered, count(F.undelivered) + 1)
  delivery.number, delivery.generation, delivery.created = count(F.last_delivery), count(F.generation), now
  put_delivery(key, delivery)
  redis.call('PERSIST', K.outbox)
end

local function unsettled(delivery)
  return delivery.state == Delivery.pending or delivery.state == Delivery.sending
end

-- Let a background session that has ended take the report of one that it spawned; the caller saves.
local function wake_ended()
  drop(F.ended)
  if S.status == Status.archived then move(Status.idle) end
end

-- Whether people may still decide on it: a delivery from before a reset is nobody's any more.
local function dead_letter(delivery)
  return DEAD[delivery.state] and delivery.generation == count(F.generation)
end

-- Note until when the session may have dead letters, for the sweep; those in doubt are kept until people decide.
local function left_unsaid(delivery, till)
  if dead_letter(delivery) then
    set(F.dead_until, delivery.state == Delivery.ambiguous and NEVER or math.max(count(F.dead_until), till))
  end
end

-- Whether a delivery is unsettled that readers of the session may know of. A message passed on unread may be above
-- them, and so is a notice to its person about such a message.
local function unheard()
  if count(F.undelivered) == 0 then return false end
  local seen = visibility()
  for _, delivery in pairs(records(K.outbox)) do
    if unsettled(delivery) and flows(delivery.label, seen) then return true end
  end
  return false
end

-- Archive a background session that has ended, once all its deliveries were heard or never will be. Only facts that its
-- own visibility covers decide that. A paused one stays until it goes on: archived, it could not be resumed. The caller
-- has written the number of unsettled deliveries, and saves.
local function archive_heard()
  if background() and S.ended and not S.paused and not S.turn and count(F.waiting) == 0 and not unheard() then
    move(Status.archived)
  end
end

-- All deliveries, oldest first, each with its key and its stored record.
local function deliveries()
  local flat, list = redis.call('HGETALL', K.outbox), {}
  for i = 1, #flat, 2 do list[#list + 1] = {key = flat[i], packed = flat[i + 1], delivery = decode(flat[i + 1])} end
  table.sort(list, function(a, b) return a.delivery.number < b.delivery.number end)
  return list
end

-- Let the deliveries expire, when all are settled; the next one holds them again. With dead letters among them, which
-- stay longer, and one in doubt until people decide, each expires by itself. Only where there may be some is the whole
-- outbox read; the caller has written the numbers of unsettled and dead ones, and saves. While a turn waits for people
-- the copies of its questions stay: they are reminded of, and edited, however long that takes.
local function forget_deliveries(keep, keep_dead)
  if count(F.undelivered) > 0 or suspended() then return end
  local all, dead = count(F.dead_until) > 0 and records(K.outbox) or {}, false
  for _, delivery in pairs(all) do dead = dead or dead_letter(delivery) end
  if not dead then
    drop(F.dead_until)
    redis.call('PEXPIRE', K.outbox, keep)
    return
  end
  for key, delivery in pairs(all) do
    local letter = dead_letter(delivery)
    if not (letter and delivery.state == Delivery.ambiguous) then
      redis.call('HPEXPIRE', K.outbox, letter and keep_dead or keep, 'NX', 'FIELDS', 1, key)
    end
  end
end

-- Background sessions ----------------------------------------------------------------------------------

-- Tell the parent of a background session, once, if that rises above it here: the parent's taint at the spawn does not
-- cover this session's taint from now on. The notice is as high as the session was `before`; `asker` is the person who
-- set it going. Returns whether there is one. The caller saves.
local function announce(now, before, asker)
  if not S.lineage then return false end
  local lineage = decode_part(S.lineage)
  if not flows(before, lineage.known) or flows(visibility(), lineage.known) then return false end
  add_delivery(lineage.run .. NOTICE.key, now, {state = Delivery.pending, channel = NOTICE.channel, address = S.home,
    label = before, kind = NOTICE.kind, approved = NOTICE.approved, hops = NOTICE.hops,
    asker = asker ~= S.principal and asker or '', body = NOTICE.body})
  return true
end

-- Runs -------------------------------------------------------------------------------------------------

-- A run's progress: an absent field is zero, running, or closed.
local function progress()
  return S.progress and decode_part(S.progress) or {}
end

-- Note since when a run is ending, the first time; the caller saves.
local function abort_run(now)
  local run = progress()
  if run.aborting then return end
  run.aborting = now
  set(F.progress, encode_part(run))
end

-- Create the session, which pins `agent`; the caller logs its creator, and saves.
local function begin_session(now, home, principal, creation, agent)
  set(F.version, SCHEMA)
  set(F.generation, 1)
  set(F.generation_seq, 1)
  set(F.status, Status.idle)
  set_label(F.creation, creation)
  set(F.home, home)
  set(F.principal, principal)
  set(F.created, now)
  if agent then set(F.agent, agent) end
end

-- Put a continuation into a run's inbox, in the name of its asker; the caller saves. `item` has label, dedupe, body and
-- digest.
local function continue_run(now, item)
  item.sender, item.sent = decode_part(S.charter).asker or S.principal, true
  put_item(now, A.op, item)
end

-- The continuations that wait in a run's inbox.
local function continuations()
  local found = {}
  for _, item in ipairs(waiting_items()) do
    if string.sub(item.dedupe, 1, #CONTINUE) == CONTINUE then found[#found + 1] = item end
  end
  return found
end

-- Schedules and timers ---------------------------------------------------------------------------------

-- Set a timer, replacing one of its name; none is due at 0.
local function put_timer(name, due)
  redis.call('HDEL', K.taken, name)
  if due > 0 then redis.call('ZADD', K.timers, digits(due), name) else redis.call('ZREM', K.timers, name) end
end

-- Write a schedule with its timer. A schedule that is done is known for `keep` ms.
local function put_schedule(id, timer, schedule, keep)
  redis.call('HSET', K.schedules, id, encode(schedule))
  if schedule.status == ScheduleStatus.done then redis.call('HPEXPIRE', K.schedules, keep, 'FIELDS', 1, id) end
  put_timer(timer, schedule.status == ScheduleStatus.active and schedule.next_at or 0)
end

-- Memories and skills -----------------------------------------------------------------------------------

-- Write a memory or a skill as the last change of its label. Versions go up with the clock, so that no version is used
-- twice after changes were lost with a server. Returns the record as it is stored.
local function put_known(key, id, record)
  local version = digits(math.max(tonumber(redis.call('HGET', K.versions, A.label) or 0) + 1, now_ms()))
  redis.call('HSET', K.versions, A.label, version)
  redis.call('ZADD', K.changed, version, id)
  local packed = encode(record)
  redis.call('HSET', key, id, packed)
  return packed
end

-- Pace -------------------------------------------------------------------------------------------------
-- All of it is a hint. In channel and place: `until` is when something may be sent there again, and the field of a rate
-- tells when it has room again. In place: `n` counts turns, `last` is the op that last took none. A text's turn has a
-- field that `schema.turn_field` names, with a record `send turn`. Dead addresses: `w` and `-` say that no message came
-- from there since a text, or a send that takes no turn, was last let through.

local PACE_LIFE = 3600000

local function is_wait(field)
  return string.sub(field, 1, 2) == 'w:'
end

-- Return the field for a text, or for a send that takes no turn, that tells whether a message came since.
local function since(mine)
  return mine == '' and '-' or 'w'
end

-- Keep a text's turn, and the place for an hour after it.
local function put_wait(field, turn)
  redis.call('HSET', K.place, field, encode(turn))
  redis.call('PEXPIRE', K.place, turn.lapses - now_ms() + PACE_LIFE)
end

-- Policy -----------------------------------------------------------------------------------------------

-- The policy in force for all processes.
local function policy_in_force()
  local version, digest, time, process, changes =
    unpack(redis.call('HMGET', K.policy, 'version', 'digest', 'time', 'process', 'changes'))
  if not version then return {} end
  check(version)
  return {version = version, digest = digest, time = time, process = process, changes = changes}
end

-- Changes of access ------------------------------------------------------------------------------------
-- The overrides count them, those of tokens too; the policy in force carries that number along.

-- How many there were. A record of another version ends the script.
local function changes_made()
  local there = redis.call('HMGET', K.overrides, 'version', 'count')
  if there[1] then check(there[1]) end
  return tonumber(there[2] or 0)
end

-- Count one more change, in the policy in force too.
local function count_change(policy, before)
  policy.changes = before + 1
  redis.call('HSET', K.overrides, 'version', SCHEMA, 'count', policy.changes)
  if policy.version then redis.call('HSET', K.policy, 'changes', policy.changes) end
end

-- Pairings ---------------------------------------------------------------------------------------------
-- field `a:<account>` or `t:<principal>`

-- Those that still count, by field; the others are forgotten.
local function live_pairings(now)
  local live = records(K.pairings)
  for field, pairing in pairs(live) do
    if pairing.expires <= now then
      redis.call('HDEL', K.pairings, field)
      live[field] = nil
    end
  end
  return live
end

-- Budgets ----------------------------------------------------------------------------------------------
-- A `portion` has the tokens of the budget of all that an account may have used and set aside (`granted`), and those it
-- used on its `day`. An account keeps its own in the field `portion` of K.spent, beside its use by pool. The centre
-- keeps that of each account in K.grants, and their sum in the field `all`; there `used` is the use reported to it.

local DAY, OWN, ALL = 86400000, 'portion', 'all'

-- How long an account is kept after its last change. A grant is taken within a day, so a grant that was taken back is
-- never taken by an account that forgot that.
local KEPT = 2 * DAY

-- A portion as it counts on a day, and whether that day begins with it: use of an earlier day counts no longer. A clock
-- that goes back begins no day again.
local function portion_on(day, key, field)
  local packed = redis.call('HGET', key, field)
  local one = packed and decode(packed) or {}
  for _, name in ipairs({F.number, F.granted, F.used, F.day}) do one[name] = one[name] or 0 end
  if one.day >= day then return one, false end
  one.day, one.used = day, 0
  return one, true
end

-- The tokens set aside at an account, in all and for one pool, and by id the reservations that lapsed.
local function set_aside(now, pool)
  local total, here, lapsed = 0, 0, {}
  for id, one in pairs(records(K.spending)) do
    if one.lapses < now then
      lapsed[id] = one
    else
      total = total + (one.tokens or 0)
      if one.pool == pool then here = here + (one.tokens or 0) end
    end
  end
  return total, here, lapsed
end

-- An account's own portion, and whether a day begins with it. Then it keeps as much of it as is set aside.
local function own_portion(now, aside)
  local own, begins = portion_on(math.floor(now / DAY), K.spent, OWN)
  if begins then own.granted = math.min(own.granted, aside) end
  return own, begins
end

-- Write an account's portion. Its use by pool of an earlier day is deleted.
local function put_own(own, begins)
  if begins then redis.call('DEL', K.spent) end
  redis.call('HSET', K.spent, OWN, encode(own))
  redis.call('PEXPIRE', K.spent, KEPT)
end

-- Count the use of a pool; the caller writes the portion before.
local function spend(pool, tokens, complete)
  local packed = redis.call('HGET', K.spent, pool)
  local known = packed and decode(packed) or {}
  known.tokens = math.min((known.tokens or 0) + tokens, MOST)
  known.incomplete = known.incomplete or not complete
  redis.call('HSET', K.spent, pool, encode(known))
end

-- Change the centre's grant to an account, with the account's use by now, and the sum of all.
local function put_grant(all, account, one, granted)
  local before = one.day == all.day and one.used or 0
  all.granted, one.granted = all.granted + granted - one.granted, granted
  if A.day > all.day then
    all.day, all.used, before = A.day, 0, 0
  end
  if A.day >= one.day then one.day, one.used = A.day, A.used end
  all.used = all.used + (one.day == all.day and one.used or 0) - before
  if granted == 0 then
    redis.call('HDEL', K.grants, account)
  else
    redis.call('HSET', K.grants, account, encode(one))
  end
  redis.call('HSET', K.grants, ALL, encode(all))
end
