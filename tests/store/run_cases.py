"""What runs and schedules ask of the store, for the test of a lost reply: each prepares a call, and returns it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from bot.sessions.background.run_states import Breaker, EndReason, Priority
from bot.sessions.background.runs import NewNote, Progress, ProgressChange, RunSlot
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.models import Write
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import Script
from policy.labels import PUBLIC
from tests.store.world import event, fresh, goal, row, run_started, scheduled, stepping

Act = Callable[[RedisStore], Awaitable[object]]


def _place() -> RunSlot:
    return RunSlot(fresh(), fresh(), PUBLIC, "", since=0, until=2**45, fence=0, live=True)


async def _beginning(_store: RedisStore) -> Act:
    new = goal()
    return lambda store: store.sessions.accept(new)


async def _continuing(store: RedisStore) -> Act:
    claim, written = await run_started(store)
    end = stepping(written.seq, 1, Progress(turns=1, consecutive=1), text="x" * 40_000)

    async def act(store: RedisStore) -> object:
        await store.sessions.commit(claim, end)
        return len(await store.sessions.waiting(claim.sid)), await store.runs.progress(claim.sid)

    return act


async def _ending(store: RedisStore) -> Act:
    claim, written = await run_started(store)
    await store.sessions.accept(replace(goal(claim.sid), dedupe="d2", charter=None))
    end = stepping(written.seq, 1, Progress(turns=1, ended_at=1, reason=EndReason.STOPPED))
    return lambda store: store.sessions.commit(claim, end)


async def _stopping(store: RedisStore) -> Act:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    return lambda store: store.sessions.stop(claim.sid, actor="ann")


async def _acknowledging(store: RedisStore) -> Act:
    claim, written = await run_started(store)
    await store.runs.steer(claim.sid, NewNote("n", Priority.ABORT, "end", PUBLIC, "ann"), ())
    write = Write(fresh(), written.seq, events=(event(),), acknowledge=("n",))
    return lambda store: store.sessions.record(claim, write)


async def _changing(store: RedisStore) -> Act:
    claim, _ = await run_started(store)
    return lambda store: store.runs.change(claim, ProgressChange(task="a", completes=True, failed=2))


async def _steering(store: RedisStore) -> Act:
    claim, _ = await run_started(store)
    note = NewNote("n", Priority.URGENT, "pivot", PUBLIC, "ann")
    return lambda store: store.runs.steer(claim.sid, note, (row(),))


async def _waking(store: RedisStore) -> Act:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1, Progress(turns=1, breaker=Breaker.OPEN)))

    async def act(store: RedisStore) -> object:
        woken = await store.runs.wake(claim.sid, "op", "try", PUBLIC, probe=True)
        return woken, len(await store.sessions.waiting(claim.sid))

    return act


async def _reserving(_store: RedisStore) -> Act:
    who, place = fresh(), _place()

    async def act(store: RedisStore) -> object:
        got = await store.runs.reserve(who, place, 1)
        return got.live, len(await store.runs.slots(who))

    return act


async def _locking(store: RedisStore) -> Act:
    who, place = fresh(), _place()
    await store.runs.reserve(who, place, 1)

    async def act(store: RedisStore) -> object:
        got = await store.runs.lock(who, place.run, "nightly", 1)
        return got.slot, got.fence

    return act


async def _freeing(store: RedisStore) -> Act:
    who, place = fresh(), _place()
    await store.runs.reserve(who, place, 1)
    return lambda store: store.runs.free(who, place.run)


async def _adding(_store: RedisStore) -> Act:
    made = scheduled(fresh())
    return lambda store: store.schedules.add(made, 1, (row(),))


async def _replacing(store: RedisStore) -> Act:
    made = scheduled(fresh())
    await store.schedules.add(made, 1, ())
    return lambda store: store.schedules.replace(made, replace(made, failures=1), (row(),))


async def _dropping(store: RedisStore) -> Act:
    made = scheduled(fresh())
    await store.schedules.add(made, 1, ())
    return lambda store: store.schedules.drop(made.id, (row(),))


async def _setting(_store: RedisStore) -> Act:
    timer = Timer(TimerKind.RECORD, fresh(), 2**42)
    return lambda store: store.schedules.set_timer(timer)


async def _taking(store: RedisStore) -> Act:
    timer = Timer(TimerKind.PROBE, fresh(), 1)
    await store.schedules.set_timer(timer)

    async def act(store: RedisStore) -> object:
        """Take what is due, the answer to which is lost: it is answered again, and nothing is left to take."""
        taken, _ = await store.schedules.take_due(100, 60_000)
        again, _ = await store.schedules.take_due(100, 60_000)
        return timer in taken, len(again)

    return act


async def _keeping(store: RedisStore) -> Act:
    timer = Timer(TimerKind.PROBE, fresh(), 1)
    await store.schedules.set_timer(timer)
    await store.schedules.take_due(100, 60_000)
    return lambda store: store.schedules.keep((timer,), 60_000)


async def _settling(store: RedisStore) -> Act:
    timer = Timer(TimerKind.PROBE, fresh(), 1)
    await store.schedules.set_timer(timer)
    await store.schedules.take_due(100, 60_000)
    return lambda store: store.schedules.settle(timer)


RUN_CASES: Final[tuple[tuple[Script, Callable[[RedisStore], Awaitable[Act]]], ...]] = (
    (Script.ACCEPT, _beginning),
    (Script.COMMIT, _continuing),
    (Script.COMMIT, _ending),
    (Script.STOP, _stopping),
    (Script.RAISE_TAINT, _acknowledging),
    (Script.CHANGE_RUN, _changing),
    (Script.STEER, _steering),
    (Script.WAKE_RUN, _waking),
    (Script.RESERVE_RUN, _reserving),
    (Script.LOCK_SLOT, _locking),
    (Script.FREE_RUN, _freeing),
    (Script.ADD_SCHEDULE, _adding),
    (Script.REPLACE_SCHEDULE, _replacing),
    (Script.DROP_SCHEDULE, _dropping),
    (Script.SET_TIMER, _setting),
    (Script.TAKE_DUE, _taking),
    (Script.HOLD_TIMER, _keeping),
    (Script.SETTLE_TIMER, _settling),
)
"""Script → what prepares a call of it."""
