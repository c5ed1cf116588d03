-- Find the turns that ended before an event, newest first. At most 4,000 events are read.
-- Arguments: before (a seq), most, turn (the id of the only one to find).
-- Answers: ok events, below (where to continue, none at the beginning of the log).

local found, last, looked = {}, A.before - 1, 0
while last > 0 and #found < A.most and looked < 4000 do
  local page = redis.call('XREVRANGE', K.log, digits(last) .. '-0', '-', 'COUNT', 500)
  if #page == 0 then last = 0 end
  for _, entry in ipairs(page) do
    if #found == A.most then break end
    last, looked = tonumber(string.match(entry[1], '^%d+')) - 1, looked + 1
    local event = decode(entry[2][2])
    if event.type == TURN_COMPLETED and (not A.turn or event.turn == A.turn) then found[#found + 1] = entry end
  end
end
return reply('ok', {events = found, below = last > 0 and last + 1})
