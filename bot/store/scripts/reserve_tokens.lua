-- Set tokens aside before a model is asked, unless a budget of the day does not suffice. The day is that of the server's
-- clock, UTC. What is not settled within its time comes back, and what it used is not known.
-- Arguments: id, life ms, tokens, person, chat (none outside one), pool, most (person, chat, all: none for no limit)
-- That of a person or a chat is for each of their pools, by its level and compartments: nothing of one pool tells in
-- another (law no_read_up). That of all is one for all pools together.
-- Answers: ok · short whose lack: the whole of it would not suffice (never), what is left of it does not (used), or only
--   not as long as others have set aside what they may not use (held)

local now = now_ms()
local day = begun_day(now)
local held, lapsed = {}, {}
for id, one in pairs(records(K.spending)) do
  if id == A.id then return reply('ok') end
  if one.lapses < now then
    lapsed[id] = one
  else
    for _, account in ipairs(accounts(one)) do held[account] = (held[account] or 0) + one.tokens end
    held[ALL] = (held[ALL] or 0) + one.tokens
  end
end
local waiting
for _, limit in ipairs({{'person', account_of(A.person, A.pool)}, {'chat', A.chat and account_of(A.chat, A.pool)},
    {'all', ALL}}) do
  local whose, account, most = limit[1], limit[2], A.most[limit[1]]
  if most and account then
    local left = most - spent(account)
    if A.tokens > left then return reply('short', {whose = whose, lack = A.tokens > most and 'never' or 'used'}) end
    if A.tokens > left - (held[account] or 0) then waiting = waiting or whose end
  end
end
if waiting then return reply('short', {whose = waiting, lack = 'held'}) end
-- As who reads the day counts what has come back, so that it tells nothing when that is written, nor by whom.
for id, one in pairs(lapsed) do
  redis.call('HDEL', K.spending, id)
  if math.floor(one.lapses / DAY) == day then spend(one, 0, false) end
end
redis.call('HSET', K.spending, A.id, encode({lapses = now + A.life, tokens = A.tokens, person = A.person, chat = A.chat,
  pool = A.pool}))
return reply('ok')
