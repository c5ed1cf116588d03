"""Workers stopped or killed while they hold a run or set off what is due: `poe chaos`."""

import asyncio
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from bot.sessions.background.run_states import EndReason
from bot.sessions.background.runs import Progress, RunOrder, RunWish, StartedRun
from bot.sessions.background.schedules import Schedule, ScheduleKind, ScheduleStatus, TimerKind
from bot.sessions.log.event_types import ToolCall, ToolOutcome, ToolResult
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.store.schema import AUDIT, TIMERS
from bot.store.scripts.loader import Script
from policy.labels import PUBLIC
from tests.bot.kit import bang, eventually
from tests.chaos.instants import Installation, at, installed
from tests.chaos.tap import Trap
from tests.events import bodies
from tests.harness import HOME
from tests.store.world import command, dump, keys, kill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

BEGIN = bang("session_initialize", session_type="autonomous", slot="nightly")
COUNT = bang("session_increment_completed")
_SECONDS = 60


def task(name: str, seconds: float = 0.1) -> str:
    """Return the part of a goal that does a task: counted before and behind what takes a while."""
    named, works = bang("session_update", current_task_id=name), bang("step", say=name, seconds=seconds)
    return f"{named} {COUNT} {works} {COUNT}"


def order(key: str, *parts: str) -> RunOrder:
    """Return what starts a run that has the slot `nightly`."""
    return RunOrder(RunWish(" ;; ".join((BEGIN, *parts))), key, "owner", "owner", PUBLIC, asked_at=str(HOME))


async def came(made: Installation, run: StartedRun) -> Progress:
    return await made.app.store.runs.progress(run.sid) or Progress()


async def over(made: Installation, run: StartedRun) -> None:
    """Wait until a run has ended and its news are said."""

    async def ended() -> bool:
        state = await made.app.store.sessions.state(run.sid)
        return state is not None and state.status is Status.ARCHIVED and not state.undelivered

    await eventually(ended, _SECONDS)


async def given_back(made: Installation) -> None:
    """Wait until nothing has a place."""

    async def free() -> bool:
        return not any(place.live for place in await made.app.store.runs.slots("owner"))

    await eventually(free, _SECONDS)


async def works(made: Installation, run: StartedRun) -> None:
    """Wait until a run is in the middle of a call that takes a while."""

    async def within() -> bool:
        events = await made.app.store.sessions.events(run.sid)
        done = {result.call for result in bodies(events, ToolResult)}
        return any(one.tool == "step" and one.call not in done for one in bodies(events, ToolCall))

    await eventually(within, _SECONDS)


async def whole(made: Installation, run: StartedRun, *tasks: str) -> None:
    """Look at a run that has done its work: each task is counted once, each call has one result, each turn one end."""
    progress, store = await came(made, run), made.app.store
    events = await store.sessions.events(run.sid, limit=10_000)
    counted = await command(store, "HKEYS", keys(run.sid).tasks)
    assert (progress.reason, progress.completed) == (EndReason.COMPLETED, len(tasks))
    assert sorted(counted) == sorted(name.encode() for name in tasks)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    ended = Counter(event.turn for event in events if event.type is EventType.TURN_COMPLETED)
    assert set(ended.values()) == {1}
    assert progress.turns == len(ended) == len(tasks) + 2
    results = bodies(events, ToolResult)
    assert [result for result in results if result.outcome is not ToolOutcome.OK] == []
    assert set(Counter(result.call for result in results).values()) == {1}
    assert {one.call for one in bodies(events, ToolCall)} == {result.call for result in results}


async def test_stale_fence_writes_nothing_of_a_run_when_its_stopped_holder_wakes(tmp_path: Path) -> None:
    """Its run was ended by another worker, and its slot is another run's, which it leaves alone."""
    async with installed(tmp_path) as made:
        store = made.app.store
        first = await made.app.gate.start_run(order("first", task("a", 1.5)))
        await works(made, first)
        holder = made.tap.victim
        os.kill(holder, signal.SIGSTOP)
        try:
            await made.begin()
            await over(made, first)
            await given_back(made)
            second = await made.app.gate.start_run(order("second", task("b", 3)))
            await works(made, second)
            before = await dump(store, first.sid)
        finally:
            os.kill(holder, signal.SIGCONT)
        await over(made, second)
        await given_back(made)
        kill(made.tap.victim)
        # What the first one had begun is over once it has done something else.
        made.tap.victim = holder
        await made.let_time_pass()
        third = await made.app.gate.start_run(order("third", task("c")))
        await over(made, third)
        assert await dump(store, first.sid) == before
        for run, name in ((first, "a"), (second, "b"), (third, "c")):
            await whole(made, run, name)
        places = {place.run: place for place in await store.runs.slots("owner")}
        fences = [places[run.run].fence for run in (first, second, third)]
        assert fences == sorted(set(fences))
        await made.check()


async def behind(made: Installation, trap: Trap, holds: "Callable[[], Awaitable[bool]]") -> None:
    """Let the worker be killed at the instant that was armed, and another one do what is left until something holds."""

    async def killed_and_healed() -> None:
        async with asyncio.timeout(_SECONDS):
            await made.tap.sprung.wait()
        await eventually(holds, _SECONDS)

    assert await made.healed(killed_and_healed(), trap)


@pytest.mark.parametrize("kind", ScheduleKind)
async def test_no_timer_is_lost_or_carried_out_twice(tmp_path: Path, kind: ScheduleKind) -> None:
    """Its worker is killed between taking it and settling it; the next one does what is left of it, and no more."""
    async with installed(tmp_path) as made:
        for number, trap in enumerate(_TAKEN):
            await _carried_out(made, kind, f"s_{number}", trap)


_TAKEN: Final = (
    at(Script.AUDIT_APPEND, done=False),
    at(Script.REPLACE_SCHEDULE, done=False),
    at(Script.REPLACE_SCHEDULE),
    at(Script.SETTLE_TIMER, done=False),
)
"""Before anything of it is done, before and behind the step that moves the schedule on, and before it is settled."""


async def _carried_out(made: Installation, kind: ScheduleKind, name: str, trap: Trap) -> None:
    """Let a schedule be due, and its worker be killed at an instant of that."""
    store, now = made.app.store, made.app.store.tokens.now_ms()
    text = f"{BEGIN} ;; {task('a')}" if kind is ScheduleKind.RUN else f"the ferry {name} leaves"
    facts = (name, "owner", "owner", kind, text, PUBLIC, "", "UTC")
    one = Schedule(*facts, next_at=now, created_at=now, asked_at=str(HOME))
    made.tap.arm(trap)
    await store.schedules.add(one, 100, ())

    async def done() -> bool:
        after = await store.schedules.schedule(name)
        return after is not None and after.status is ScheduleStatus.DONE

    await behind(made, trap, done)
    rows = [row.body["do"] for row in await store.audit.records(AUDIT) if row.body.get("schedule") == name]
    states = [state for state in await made.states() if state.charter is not None and state.charter.schedule == name]
    if kind is ScheduleKind.RUN:
        ((state, charter),) = [(state, state.charter) for state in states if state.charter is not None]
        run = StartedRun(charter.run, state.sid, charter.deadline)
        await over(made, run)
        await whole(made, run, "a")
        assert (rows, charter.due) == (["started"], now)
    else:
        said = [entry.text for entry in await store.outbox.deliveries(made.app.session_id(HOME))]
        assert said.count(f"Reminder: {text}") == 1
        assert (rows, states) == (["said"], [])


async def ran(made: Installation, name: str, trap: Trap) -> bool:
    """Kill the worker while a run does two tasks; tell whether it came to that before the run was over."""
    made.tap.arm(trap)
    run = await made.app.gate.start_run(order(name, task("a", 0.0), task("b", 0.0)))
    killed = await made.healed(over(made, run), trap)
    await whole(made, run, "a", "b")
    return killed


async def test_crash_heals_at_many_requests_of_a_run(tmp_path: Path) -> None:
    async with installed(tmp_path) as made:
        nth, killed = 1, True
        while killed:
            killed = await ran(made, f"{nth}-lost", Trap(nth=nth, done=False))
            killed = await ran(made, f"{nth}-done", Trap(nth=nth + 5)) or killed
            nth += 11
        assert nth > 20
        await made.check()


async def test_a_change_is_made_whose_worker_dies_before_it_hears_so(tmp_path: Path) -> None:
    """Its call is decided by the run as it stood before, also where that change stopped it."""
    async with installed(tmp_path) as made:
        nth, killed = 1, True
        while killed:
            killed = await ran(made, f"change {nth}", at(Script.CHANGE_RUN, nth))
            nth += 1
        assert nth > 7
        await made.check()


_RECORDED: Final = (
    at(Script.RECORD_KEY, done=False),
    at(Script.RECORD_KEY),
    at(Script.SETTLE_TIMER, done=False),
    at(Script.SETTLE_TIMER),
)
"""Behind the end of a run: before its record is sealed, before it is written, and before and behind its timer's end."""


async def recorded(made: Installation, run: StartedRun) -> None:
    """Wait until the record of a run is written; what the dead left to write is due at once."""
    await over(made, run)
    timer = f"{TimerKind.RECORD}/{run.sid}"

    async def written() -> bool:
        if made.tap.sprung.is_set():
            await command(made.app.store, "ZADD", TIMERS, "XX", 1, timer)
        return await command(made.app.store, "ZSCORE", TIMERS, timer) is None

    await eventually(written, _SECONDS)


async def whole_record(made: Installation, folder: Path, run: StartedRun) -> None:
    """Look at the record of a run that has ended: it is there once, and the audit tells of it once."""
    git = ("git", "-C", str(folder / "data/workspace"))
    log, sound = [
        await asyncio.to_thread(subprocess.run, (*git, *what), capture_output=True, text=True, check=True)
        for what in (("log", "--format=%s"), ("fsck", "--strict"))
    ]
    assert log.stdout.splitlines().count(f"Run {run.run} ended: completed") == 1, sound
    record = await made.app.recorder.found(run.run, made.app.config.policy.top)
    assert record is not None
    assert (record.readable, record.document["completion_reason"]) == (True, "completed")
    rows = [row.body for row in await made.app.store.audit.records(AUDIT) if row.kind == "recorded"]
    assert [row["run"] for row in rows].count(run.run) == 1


async def test_a_run_whose_worker_dies_behind_its_end_is_recorded_once(tmp_path: Path) -> None:
    async with installed(tmp_path) as made:
        for number, trap in enumerate(_RECORDED):
            made.tap.arm(trap)
            run = await made.app.gate.start_run(order(f"trap {number}", task("a", 0.0)))
            assert await made.healed(recorded(made, run), trap)
            await whole_record(made, tmp_path, run)


async def test_a_run_whose_worker_dies_while_it_writes_its_record_is_recorded_once(tmp_path: Path) -> None:
    async with installed(tmp_path) as made:
        for number in range(10):
            run = await made.app.gate.start_run(order(f"moment {number}", task("a", 0.0)))

            async def ended(run: StartedRun = run) -> bool:
                return (await came(made, run)).ended_at > 0

            await eventually(ended, _SECONDS)
            await asyncio.sleep(number / 100)
            kill(made.tap.victim)
            made.tap.sprung.set()
            await made.let_time_pass()
            await made.begin()
            await recorded(made, run)
            made.tap.sprung.clear()
            await whole_record(made, tmp_path, run)
