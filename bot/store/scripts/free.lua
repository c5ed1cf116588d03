-- Mark slots as free whose record is still the one that was looked at; each is shown until `keep` ms after its deadline.
-- KEYS: slots
-- ARGV: keep ms, then run and record of each
-- Answers: ok

local keep = num()
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], (string.gsub(ARGV[i + 1], '^(%d+) live ', '%1 ended ')))
    local deadline = tonumber(string.match(ARGV[i + 1], '^%d+ %l+ %d+ (%d+)'))
    redis.call('HPEXPIREAT', KEYS[1], string.format('%.0f', deadline + keep), 'FIELDS', 1, ARGV[i])
  end
end
return {'ok'}
