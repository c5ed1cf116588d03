-- Change a run's progress, for the holder of its session alone. The same change again has no effect: counters are
-- totals, and a completed task is counted once.
-- Arguments: claim (generation, fence, owner), late ms (after its deadline, within which it may be changed).
--   And task, status, auth_method, failed, skipped, consecutive, completes, initializes, beats, next_action; an absent
--   field stays.
-- Answers: ok progress · stale · reset · none · over · down · task.

if not read_state(K.state) then return reply('stale') end
local refusal = stale()
if refusal then return refusal end
if not S.charter then return reply('none') end
local now, run = now_ms(), progress()
if S.ended or now > (decode_part(S.charter).deadline or 0) + A.late then return reply('over') end
if run.status == RunStatus.stopped and A.status and A.status ~= run.status then return reply('over') end
if (A.failed or MOST) < (run.failed or 0) or (A.skipped or MOST) < (run.skipped or 0) then return reply('down') end

run.task, run.status, run.auth_method = A.task or run.task, A.status or run.status, A.auth_method or run.auth_method
run.failed, run.skipped, run.consecutive = A.failed or run.failed, A.skipped or run.skipped, A.consecutive or run.consecutive
if A.completes then
  if (run.task or '') == '' then return reply('task') end
  if redis.call('HSETNX', K.tasks, run.task, encode({time = now})) == 1 then
    run.completed, run.consecutive = (run.completed or 0) + 1, 0
  end
end
if A.initializes and not run.initialized_at then run.initialized_at = now end
if A.beats then run.beat_at, run.next_action = now, A.next_action end
set(F.progress, encode_part(run))
save(K.state)
return reply('ok', {progress = S.progress})
