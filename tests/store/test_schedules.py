"""Schedules and timers in the store: each is kept with its timer, and none that was taken is lost."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from bot.core.errors import BusyError
from bot.sessions.background.run_states import RunType
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus, Timer, TimerKind
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, SCHEDULES, TAKEN_TIMERS, TIMERS, schedules_of_key
from policy.labels import parse
from tests.fleets import Served
from tests.store.world import KEY, command, fresh, moment, row, scheduled

pytestmark = pytest.mark.anyio

HOLD = 60_000


@pytest.fixture
async def store(own: RedisStore) -> RedisStore:
    """A store of these tests' own: they count all timers."""
    return own


def dues(taken: Iterable[Timer]) -> list[tuple[TimerKind, str, int]]:
    return [(timer.kind, timer.about, timer.due) for timer in taken]


async def in_audit(store: RedisStore, *schedules: Schedule) -> int:
    for one in schedules:
        await store.schedules.add(one, 100, (row(),))
    return (await store.audit.head(AUDIT))[0]


async def test_a_schedule_comes_back_as_it_was_made(store: RedisStore) -> None:
    whole = replace(
        scheduled(),
        label=parse("CONFIDENTIAL{hr}~"),
        kind=ScheduleKind.REMINDER,
        created_at=3,
        title="tea",
        deliver_to="room",
        meant="slack:team:room:",
        run_type=RunType.MANUAL,
        slot="nightly",
        overlap=Overlap.ALLOW,
        by_agent=True,
        last_at=4,
        last_run="s",
        failures=5,
        skipped=6,
    )
    older, theirs = replace(scheduled(), created_at=2), scheduled(fresh())
    count = await in_audit(store, whole, older, theirs, whole)
    assert count == 3
    assert await store.schedules.schedule(whole.id) == whole
    assert await store.schedules.of("ann") == (older, whole)
    assert set(await store.schedules.every()) == {whole, older, theirs}
    assert await store.schedules.schedule(fresh()) is None
    assert await store.schedules.of(fresh()) == ()
    assert await store.schedules.next_due() > 0


async def test_as_many_schedules_are_in_force_in_a_pool_as_may(store: RedisStore) -> None:
    first = scheduled()
    for one in (first, scheduled(label=parse("PUBLIC~")), scheduled(label=parse("INTERNAL")), scheduled("bea")):
        await store.schedules.add(one, 2, ())
    with pytest.raises(BusyError):
        await store.schedules.add(scheduled(), 2, (row(),))
    assert await store.audit.head(AUDIT) == (0, "")
    await store.schedules.add(first, 2, ())
    await store.schedules.replace(first, replace(first, status=ScheduleStatus.PAUSED))
    await store.schedules.add(scheduled(), 2, ())


async def test_a_schedule_is_replaced_only_as_it_was_seen(store: RedisStore) -> None:
    made = scheduled()
    await store.schedules.add(made, 5, ())
    later = replace(made, next_at=made.next_at + 1, last_at=made.next_at, failures=1)
    assert await store.schedules.replace(made, later, (row(),))
    assert not await store.schedules.replace(made, replace(made, failures=9), (row(),))
    assert not await store.schedules.replace(scheduled(), made)
    assert await store.schedules.schedule(made.id) == later
    # What was set by default is so again.
    assert await store.schedules.replace(later, made)
    assert await store.schedules.schedule(made.id) == made
    assert (await store.audit.head(AUDIT))[0] == 1


async def test_a_schedule_that_is_not_in_force_has_no_timer(store: RedisStore) -> None:
    made = replace(scheduled(), next_at=1)
    await store.schedules.add(made, 5, ())
    paused = replace(made, status=ScheduleStatus.PAUSED)
    await store.schedules.replace(made, paused)
    assert await store.schedules.take_due(5, HOLD) == ((), -1)
    await store.schedules.replace(paused, made)
    done = replace(made, status=ScheduleStatus.DONE, next_at=0)
    await store.schedules.replace(made, done)
    assert await store.schedules.next_due() == -1
    assert await store.schedules.schedule(made.id) == done
    assert (await command(store, "HPTTL", SCHEDULES, "FIELDS", 1, made.id))[0] > 0
    # Once it is forgotten, its id is, too.
    await command(store, "HDEL", SCHEDULES, made.id)
    assert await store.schedules.of("ann") == ()
    await store.schedules.add(other := scheduled(), 5, ())
    assert await command(store, "SMEMBERS", schedules_of_key("ann")) == [other.id.encode()]


async def test_a_schedule_that_is_dropped_is_gone_with_its_timer(store: RedisStore) -> None:
    made = replace(scheduled(), next_at=1)
    await store.schedules.add(made, 5, ())
    await store.schedules.take_due(5, HOLD)
    assert await store.schedules.drop(made.id, (row(),))
    assert not await store.schedules.drop(made.id, (row(),))
    assert (await store.audit.head(AUDIT))[0] == 1
    for key in (SCHEDULES, TIMERS, TAKEN_TIMERS, schedules_of_key("ann")):
        assert not await command(store, "EXISTS", key)


async def test_a_timer_is_taken_when_it_is_due_and_kept_until_it_is_settled(store: RedisStore) -> None:
    now = await moment(store)
    late, early = Timer(TimerKind.DEADLINE, "s1", now - 5), Timer(TimerKind.PROBE, "s1", now - 9)
    future = Timer(TimerKind.RECORD, "s2", now + HOLD)
    for one in (late, early, future):
        await store.schedules.set_timer(one)
    taken, wait = await store.schedules.take_due(1, 1)
    assert (taken, wait) == ((early,), 0)
    taken, wait = await store.schedules.take_due(5, HOLD)
    assert late in taken
    # One that nobody settled in its time comes back with the moment when it was due.
    async with asyncio.timeout(60):
        while not taken or taken[-1].kind is not TimerKind.PROBE:
            await asyncio.sleep(0.002)
            taken, wait = await store.schedules.take_due(5, HOLD)
    assert taken[-1] == early
    assert 0 < wait <= HOLD
    await store.schedules.settle(early)
    await store.schedules.settle(late)
    await store.schedules.settle(future)
    assert await store.schedules.take_due(5, HOLD) == ((), pytest.approx(HOLD, abs=HOLD))
    assert await command(store, "ZRANGE", TIMERS, 0, -1) == [b"record/s2"]
    assert not await command(store, "EXISTS", TAKEN_TIMERS)


async def test_a_timer_that_is_worked_is_kept_until_it_is_settled_or_set_anew(store: RedisStore) -> None:
    timer = Timer(TimerKind.DEADLINE, "s1", await moment(store) - 5)
    await store.schedules.set_timer(timer)
    assert (await store.schedules.take_due(5, 1))[0] == (timer,)
    await store.schedules.keep((timer,), HOLD)
    assert await store.schedules.take_due(5, HOLD) == ((), pytest.approx(HOLD, abs=HOLD))
    await store.schedules.settle(timer)
    await store.schedules.keep((timer,), HOLD)
    assert not await command(store, "EXISTS", TIMERS, TAKEN_TIMERS)
    await store.schedules.set_timer(again := replace(timer, due=timer.due + 1))
    await store.schedules.keep((timer,), HOLD)
    assert (await store.schedules.take_due(5, HOLD))[0] == (again,)


async def test_a_timer_that_was_set_anew_meanwhile_is_not_settled(store: RedisStore) -> None:
    now = await moment(store)
    for due in (now - 1, now + 5_000):
        first = Timer(TimerKind.DEADLINE, "s1", now - 1)
        await store.schedules.set_timer(first)
        assert await store.schedules.take_due(5, HOLD) == ((first,), pytest.approx(HOLD, abs=HOLD))
        again = replace(first, due=due)
        await store.schedules.set_timer(again)
        await store.schedules.settle(first)
        assert await command(store, "ZSCORE", TIMERS, "deadline/s1") == str(due).encode()


async def test_a_schedule_sets_its_next_timer_before_the_one_that_was_taken_is_settled(store: RedisStore) -> None:
    made = replace(scheduled(), next_at=1_000)
    await store.schedules.add(made, 5, ())
    ((timer,), _) = await store.schedules.take_due(5, HOLD)
    assert timer == Timer(TimerKind.SCHEDULE, made.id, 1_000)
    await store.schedules.replace(made, replace(made, next_at=2_000))
    await store.schedules.settle(timer)
    assert dues((await store.schedules.take_due(5, HOLD))[0]) == [(TimerKind.SCHEDULE, made.id, 2_000)]


async def test_two_processes_never_take_one_timer_at_once(server: Served, store: RedisStore) -> None:
    other = await open_store(audit_key=KEY, url=store.server.url if store.server else server.url)
    await asyncio.gather(*(store.schedules.set_timer(Timer(TimerKind.PROBE, f"s{n}", n + 1)) for n in range(200)))
    found = await asyncio.gather(*(one.schedules.take_due(30, HOLD) for _ in range(5) for one in (store, other)))
    taken = [timer.about for timers, _ in found for timer in timers]
    assert len(taken) == len(set(taken)) == 200
    await other.close()
