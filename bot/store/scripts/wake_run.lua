-- Put a continuation into a run's inbox, unless an input waits there or a turn is open. With a probe an open breaker
-- becomes half-open; with any other nothing happens. A run paused by itself, or by its breaker, runs from then on.
-- Arguments: item (label, dedupe, body, digest), op, probe.
-- Answers: ok woken ready principal background.

if not read_state(K.state) then return reply('ok') end
local bar = barred()
if bar then return bar end
if not S.charter or S.ended then return reply('ok') end
local now = now_ms()
if redis.call('HEXISTS', K.inputs, A.item.dedupe) == 1 then
  return reply('ok', with_pool({woken = true, ready = wakes(now)}))
end
local run = progress()
decode_part(S.charter)
if S.turn or count(F.waiting) > 0 or (A.probe and run.breaker ~= Breaker.open) then return reply('ok') end
put_bodies()
if A.probe then run.breaker = Breaker.half_open end
if run.status == RunStatus.paused and run.breaker ~= Breaker.open then run.status = nil end
if S.progress then set(F.progress, encode_part(run)) end
continue_run(now, A.item)
save(K.state)
return reply('ok', with_pool({woken = true, ready = wakes(now)}))
