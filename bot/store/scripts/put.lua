-- Put a delivery into a session's outbox without a lease, such as one of a person's command. With `begins` the session
-- is created if it does not exist.
-- Arguments: key, delivery, begins (home, principal, creation, agent).
-- Answers: ok · none · sealed.

local begins = not read_state(K.state) and A.begins
if not S.status and not begins then return reply('none') end
local bar = barred()
if bar then return bar end
if begins and redis.call('EXISTS', K.sealed) == 1 then return reply('sealed') end
local now = now_ms()
if begins then
  begin_session(now, begins.home, begins.principal, begins.creation, begins.agent)
  set(F.updated, now)
  append_event(now, {type = 'session.created', actor = begins.principal, label = begins.creation})
end
put_bodies()
local delivery = A.delivery
delivery.state = Delivery.pending
add_delivery(A.key, now, delivery)
save(K.state)
return reply('ok')
