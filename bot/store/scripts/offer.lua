-- Keep an offer, or take it: the first way it is taken is the one it goes. It is gone when its time has passed.
-- KEYS: offer
-- ARGV: `make`, record, life ms
--   or `take`, way
-- Answers: ok · ok way · none

local what, given = arg(), arg()
if what == 'make' then
  redis.call('HSET', KEYS[1], 'v', SCHEMA, 'record', given)
  redis.call('PEXPIRE', KEYS[1], num())
  return {'ok'}
end
if not read_state(KEYS[1]) then return {'none'} end
redis.call('HSETNX', KEYS[1], 'way', given)
return {'ok', redis.call('HGET', KEYS[1], 'way')}
