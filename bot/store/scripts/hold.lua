-- Take a right, keep one that is held, or give it back; a right of another owner is not touched.
-- Arguments: owner, life ms, 0 to give it back.
-- Answers: ok · none, another owner has it.

local holder = redis.call('GET', K.right)
if holder and holder ~= A.owner then
  -- The store's clock was set back: a live owner renews it in time, and any other loses it.
  if A.life > 0 and redis.call('PTTL', K.right) > 10 * A.life then redis.call('PEXPIRE', K.right, A.life) end
  return reply('none')
end
if A.life > 0 then
  redis.call('SET', K.right, A.owner, 'PX', A.life)
elseif holder then
  redis.call('DEL', K.right)
end
return reply('ok')
