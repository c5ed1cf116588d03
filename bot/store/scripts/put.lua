-- Put something into a session's outbox without holding the session: what a person's command sends.
-- Arguments: key, delivery
-- Answers: ok · none

if not read_state(K.state) then return reply('none') end
local bar = barred()
if bar then return bar end
put_bodies()
local delivery = A.delivery
delivery.state = Delivery.pending
add_delivery(A.key, now_ms(), delivery)
save(K.state)
return reply('ok')
