-- Give back tokens that a call set aside at an account, as another budget did not suffice. Tokens that another call of
-- the same reservation set aside stay.
-- Arguments: id, op.
-- Answers: ok.

local packed = redis.call('HGET', K.spending, A.id)
if packed and decode(packed).op == A.op then redis.call('HDEL', K.spending, A.id) end
return reply('ok')
