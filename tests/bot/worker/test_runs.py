"""The loop of runs on a real store: how they go on, pause, end, and who is told."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from bot.access import recipients
from bot.app.app import App
from bot.core.errors import BusyError, RequestError
from bot.core.ids import Ids
from bot.gate.services import RefusedRunError
from bot.operations.simulation import Simulating
from bot.runs import loop
from bot.runs.starter import HOUR, RunStarter
from bot.sessions.background.delegation import LATE
from bot.sessions.background.run_states import Breaker, EndReason, GapReason, Priority, RunStatus, RunType
from bot.sessions.background.runs import NewNote, Progress, ProgressChange, RunOrder, RunWish, StartedRun
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.limits import RunLimits
from bot.sessions.log.event_types import ToolOutcome, ToolResult, UserMessage
from bot.sessions.messages import OriginKind
from bot.sessions.models import SessionState, Status
from bot.tools.base import Result, ToolContext, ToolServices
from bot.worker.run_timers import RunTimers
from bot.worker.second_recipient import NOT_FOR_THEM, NOT_TOLD
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import TOP, Probe, TextArguments, bang, eventually, parts, policy, standing
from tests.bot.rooms import CHATS, TEAM, talking, team
from tests.harness import HOME, running
from tests.store.world import end_lease

pytestmark = pytest.mark.anyio

BEGIN = '!session_initialize {"session_type": "autonomous"}'
NIGHTLY = '!session_initialize {"session_type": "autonomous", "slot": "nightly"}'
CONFIDENTIAL = parse("CONFIDENTIAL")


def task(name: str) -> tuple[str, str]:
    return f'!session_update {{"current_task_id": "{name}"}}', "!session_increment_completed"


def order(*parts: str, label: Label = PUBLIC, key: str = "k", asker: str = "owner", **wish: object) -> RunOrder:
    """Return what starts a run whose goal has these parts, one for each turn."""
    asked_at = str(wish.pop("asked_at", HOME))
    made = RunWish(" ;; ".join(parts), **wish)  # pyright: ignore[reportArgumentType] - as RunWish has them
    return RunOrder(made, key, principal=asker, asker=asker, label=label, asked_at=asked_at)


async def state_of(app: App, run: StartedRun) -> SessionState:
    state = await app.store.sessions.state(run.sid)
    assert state is not None
    return state


async def came(app: App, run: StartedRun) -> Progress:
    """Return how far a run came."""
    return (await state_of(app, run)).progress or Progress()


async def ended(app: App, run: StartedRun) -> Progress:
    """Return how far a run came, once it has ended and its news are said."""

    async def over() -> bool:
        return (await state_of(app, run)).status is Status.ARCHIVED

    await eventually(over)
    return await came(app, run)


async def tripped(app: App, run: StartedRun, trips: int) -> Progress:
    async def open_now() -> bool:
        progress = await came(app, run)
        return progress.breaker is Breaker.OPEN and progress.trips == trips

    await eventually(open_now)
    return await came(app, run)


async def messages(app: App, run: StartedRun) -> Sequence[UserMessage]:
    """Return what was said to a run."""
    events = await app.store.sessions.events(run.sid)
    return [event.body for event in events if isinstance(event.body, UserMessage)]


async def results(app: App, run: StartedRun) -> Sequence[ToolResult]:
    events = await app.store.sessions.events(run.sid)
    return [event.body for event in events if isinstance(event.body, ToolResult)]


@dataclass
class Slow:
    """A tool body that goes on when it is told to."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        self.begun.set()
        await self.goes_on.wait()
        return Result("done at last")


async def test_a_run_does_three_tasks_with_one_failure_and_says_that_it_ended(tmp_path: Path) -> None:
    failed = '!session_update {"current_task_id": "b", "tasks_failed": 1, "consecutive_failures": 1}'
    async with running(tmp_path) as owner:
        run = await owner.app.gate.start_run(order(BEGIN, *task("a"), failed, *task("c")))
        assert run == await owner.app.gate.start_run(order(BEGIN, *task("a"), failed, *task("c")))
        progress = await ended(owner.app, run)
        assert (progress.reason, progress.status) == (EndReason.COMPLETED, RunStatus.STOPPED)
        assert (progress.completed, progress.failed, progress.consecutive, progress.turns) == (2, 1, 0, 7)
        assert owner.shown.count(f"Run {run.run} has ended: it has done its work.") == 1
        assert owner.shown.count("Tasks: 2 completed, 1 failed, 0 skipped.") == 1
        # Its person's words are the first alone; what the runtime says after each turn is nobody's.
        origins = [one.origin and one.origin.kind for one in await messages(owner.app, run)]
        assert origins == [None, *[OriginKind.RUNTIME] * 6]
        # Its place is free again, and of its answers the last alone was said.
        assert not any(place.live for place in await owner.app.store.runs.slots("owner"))
        said = await owner.app.store.outbox.deliveries(run.sid)
        assert [(entry.kind, entry.address) for entry in said] == [("notice", str(HOME)), ("message", str(HOME))]


async def test_the_breaker_opens_tries_again_and_closes(tmp_path: Path) -> None:
    fails = '!session_update {{"tasks_failed": {0}, "consecutive_failures": {0}}}'
    goal = (BEGIN, fails.format(2), fails.format(3), *task("a"))
    async with running(tmp_path, policy(blocks={"runs": {"failures": 1}})) as owner:
        app, timers = owner.app, RunTimers(owner.app.store)
        run = await app.gate.start_run(order(*goal))
        open_ = await tripped(app, run, 1)
        assert (open_.status, open_.turns) == (RunStatus.PAUSED, 2)

        async def told() -> bool:
            return "is paused: 2 failures came in a row. It tries again in 10 min." in owner.shown

        await eventually(told)
        probe = Timer(TimerKind.PROBE, run.sid, 0)
        await timers.fire(probe)
        again = await tripped(app, run, 2)
        assert again.turns == 3
        # One that was said already, as its timer was not settled, is nothing new.
        await timers.fire(Timer(TimerKind.PROBE, run.sid, 0))
        progress = await ended(app, run)
        assert (progress.reason, progress.completed, progress.breaker) == (EndReason.COMPLETED, 1, Breaker.CLOSED)
        assert [gap.reason for gap in progress.gaps] == [GapReason.BREAKER] * 2
        assert all(gap.until for gap in progress.gaps)


async def test_a_run_that_is_told_to_end_has_one_more_whole_turn(tmp_path: Path) -> None:
    slow = Slow()
    goal = (BEGIN, "!slow", "!current_time", "!current_time")
    async with running(tmp_path, parts=parts(Probe("slow", does=slow))) as owner:
        app = owner.app
        run = await app.gate.start_run(order(*goal))
        await asyncio.wait_for(slow.begun.wait(), 60)
        await app.store.runs.steer(run.sid, NewNote("n1", Priority.ABORT, "come home", PUBLIC, "owner"), ())
        slow.goes_on.set()
        progress = await ended(app, run)
        assert (progress.reason, progress.turns) == (EndReason.ABORTED, 3)
        assert (await messages(app, run))[-1].text.endswith(loop.END)


@pytest.mark.parametrize(
    "goal, reason, turns",
    [
        ((BEGIN, *["!current_time"] * 5), EndReason.LIMIT, 3),
        (("!current_time",), EndReason.NOT_INITIALIZED, 1),
        (("!session_get_state", BEGIN), EndReason.NOT_INITIALIZED, 1),
    ],
    ids=["turns", "another tool", "too late"],
)
async def test_a_run_ends_without_its_doing(
    tmp_path: Path, goal: tuple[str, ...], reason: EndReason, turns: int
) -> None:
    async with running(tmp_path, policy(blocks={"runs": {"turns": 3}})) as owner:
        run = await owner.app.gate.start_run(order(*goal))
        progress = await ended(owner.app, run)
        assert (progress.reason, progress.turns) == (reason, turns)


async def test_a_call_beside_the_first_one_is_refused_and_after_the_last_one(tmp_path: Path) -> None:
    last = '!session_update {"status": "stopped"}'
    async with running(tmp_path, parts=parts(Probe("probe"))) as owner:
        run = await owner.app.gate.start_run(order(f"{BEGIN} !probe {{}}", "!probe", f"{last} !probe {{}}"))
        assert (await ended(owner.app, run)).reason is EndReason.COMPLETED
        probed = [one.outcome for one in await results(owner.app, run) if one.tool == "probe"]
        # What runs beside the one that stops the run is decided by how it stood when the model was asked.
        assert probed == [ToolOutcome.DENIED, ToolOutcome.OK, ToolOutcome.OK]


async def test_a_run_that_is_claimed_after_its_deadline_ends_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        late = RunStarter(
            app.store,
            app.session_ids.first,
            pin=app.agents.pin,
            now=lambda: app.store.tokens.now_ms() - HOUR - 1000,
            limits=RunLimits(hours=1),
        )
        run = await late.mint_run(order(BEGIN))
        progress = await ended(app, run)
        assert (progress.reason, progress.initialized) == (EndReason.DEADLINE, False)
        assert "its time is over" in owner.shown


async def test_the_timer_of_its_deadline_wakes_a_run_that_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        app = owner.app
        run = await app.gate.start_run(order("hello", type=RunType.MANUAL))

        async def waits() -> bool:
            state = await state_of(app, run)
            return state.last_turn is not None and state.status is Status.IDLE

        await eventually(waits)
        assert (await came(app, run)).ended_at == 0
        fired = Timer(TimerKind.DEADLINE, run.sid, run.deadline)
        await RunTimers(app.store).fire(fired)
        await RunTimers(app.store).fire(fired)

        async def woken() -> bool:
            return (await came(app, run)).turns == 2

        await eventually(woken)
        assert [one.text for one in await messages(app, run)].count(loop.OVER) == 1


async def test_a_run_whose_slot_is_locked_ends_and_one_of_another_level_knows_nothing_of_it(tmp_path: Path) -> None:
    first = '!session_initialize {"session_type": "manual"}'
    async with running(tmp_path) as owner:
        app = owner.app
        holder = await app.gate.start_run(order(first, key="a", type=RunType.MANUAL, slot="nightly"))

        async def locked() -> bool:
            return (await came(app, holder)).initialized

        await eventually(locked)
        second = await app.gate.start_run(order(BEGIN, key="b", slot="nightly"))
        own = await app.gate.start_run(order(NIGHTLY, key="c"))
        above = await app.gate.start_run(order(BEGIN, key="d", slot="nightly", label=CONFIDENTIAL))
        assert [(await ended(app, run)).reason for run in (second, own, above)] == [
            EndReason.SLOT_LOCKED,
            EndReason.SLOT_LOCKED,
            EndReason.COMPLETED,
        ]


async def test_a_run_goes_on_in_another_worker_where_the_first_one_died(tmp_path: Path) -> None:
    slow = Slow()
    async with running(tmp_path, serve=False, parts=parts(Probe("slow", does=slow))) as owner:
        app = owner.app
        run = await app.gate.start_run(order(BEGIN, "!slow"))
        first = asyncio.create_task(app.serve())
        await asyncio.wait_for(slow.begun.wait(), 60)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        # As if it had been killed: it gave nothing back.
        await end_lease(app.store, run.sid)
        slow.goes_on.set()
        second = asyncio.create_task(app.serve())
        progress = await ended(app, run)
        second.cancel()
        with suppress(asyncio.CancelledError):
            await second
        assert (progress.reason, progress.turns) == (EndReason.COMPLETED, 3)
        assert [gap.reason for gap in progress.gaps] == [GapReason.CRASH]


async def test_a_worker_that_lost_a_run_writes_nothing_of_it(tmp_path: Path) -> None:
    slow = Slow()
    async with running(tmp_path, parts=parts(Probe("slow", does=slow))) as owner:
        app = owner.app
        run = await app.gate.start_run(order(BEGIN, "!slow"))
        await asyncio.wait_for(slow.begun.wait(), 60)
        before = await state_of(app, run)
        await end_lease(app.store, run.sid)
        held = await app.store.sessions.claim(run.sid, Ids().owner())
        assert held is not None
        slow.goes_on.set()
        await app.drain(asyncio.Event())
        after = await state_of(app, run)
        assert (after.seq, after.progress, after.waiting_items) == (before.seq, before.progress, 0)
        assert (await app.store.runs.change(held, ProgressChange(task="mine"))).task == "mine"


async def test_what_is_told_of_a_run_goes_where_it_may_be_known(tmp_path: Path) -> None:
    """A run above the chat where it was asked for tells its person in private, and one whom nobody may hear nobody.

    Its last answer is said where that it ended is told there, and nowhere else.
    """
    rooms = team("ann", "mel")
    lower = {"team": {**CHATS["team"], "classification": "INTERNAL"}}
    async with talking(tmp_path, rooms, chats=lower) as people:
        app = people.app
        ran = {
            name: await app.gate.start_run(order("hi", key=name, asker=who, asked_at=str(TEAM), label=label))
            for name, who, label in (("low", "mel", PUBLIC), ("high", "ann", CONFIDENTIAL))
        }
        for run in ran.values():
            assert (await ended(app, run)).reason is EndReason.COMPLETED
        told, answer = rooms.heard(TEAM)
        assert (told.split()[1], answer) == (ran["low"].run, "You said: hi")
        assert [text.split()[1] for text in rooms.heard(Address("room", "ann"))] == [ran["high"].run]
        assert len(rooms.sent) == 3
        with pytest.raises(RefusedRunError):
            await app.gate.start_run(order("hi", key="no", asker="mel", label=CONFIDENTIAL))


async def test_the_last_answer_of_a_run_that_rose_is_not_said_where_it_was_asked_for(tmp_path: Path) -> None:
    rooms, lower = team("ann"), {"team": {**CHATS["team"], "classification": "INTERNAL"}}
    async with talking(tmp_path, rooms, chats=lower) as people:
        reads = bang("read_file", path="confidential/pipeline.md")
        run = await people.app.gate.start_run(order(BEGIN, reads, asker="ann", asked_at=str(TEAM)))
        await ended(people.app, run)
        assert rooms.heard(TEAM) == []
        assert [text.split()[1] for text in rooms.heard(Address("room", "ann"))] == [run.run]


@pytest.mark.parametrize("label", [PUBLIC, CONFIDENTIAL], ids=["may hear", "may not"])
async def test_the_last_answer_goes_to_its_recipient_or_its_person_is_told_why_not(
    tmp_path: Path, label: Label
) -> None:
    async with running(tmp_path) as owner:
        app, document = owner.app, owner.app.gate.document
        guest = next(place for name, place in recipients.names(document) if name == "guest")
        meant = recipients.meaning(document, guest)
        run = await app.gate.start_run(order("hi", label=label, deliver_to="guest", meant=meant))
        await ended(app, run)
        said = [entry for entry in await app.store.outbox.deliveries(run.sid) if "has ended" not in entry.text]
        refused = NOT_TOLD.format(name=f"run {run.run}", recipient="guest", why=NOT_FOR_THEM)
        assert len(said) == 1
        expected = (str(guest), "You said: hi") if label == PUBLIC else (str(HOME), refused)
        assert (said[0].address, said[0].text) == expected


async def test_five_runs_of_one_person_and_one_of_another_go_on_side_by_side(tmp_path: Path) -> None:
    """Nobody's waits for another's to end: each has begun before the first is over."""
    tasks = [part for name in "abcdef" for part in task(name)]
    async with talking(tmp_path, team("ann", "mel")) as people:
        app = people.app
        five = [await app.gate.start_run(order(BEGIN, *tasks, key=key, asker="ann")) for key in "12345"]
        one = await app.gate.start_run(order(BEGIN, *tasks, key="6", asker="mel"))
        over = [await ended(app, run) for run in (*five, one)]
        assert {(done.reason, done.completed) for done in over} == {(EndReason.COMPLETED, 6)}
        begun = [(await app.store.sessions.events(run.sid))[2].ts for run in (*five, one)]
        assert max(begun) < min(done.ended_at for done in over)


async def test_as_many_runs_go_on_in_a_pool_as_may(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"runs": {"live": 2}})) as owner:
        app = owner.app
        first, _ = [await app.gate.start_run(order("hi", key=key, type=RunType.MANUAL)) for key in "ab"]
        with pytest.raises(BusyError):
            await app.gate.start_run(order("hi", key="c"))
        # Another level's places are counted apart, and another person's too.
        await app.gate.start_run(order("hi", key="d", label=CONFIDENTIAL))
        with pytest.raises(RequestError):
            await app.gate.start_run(order("hi", key="e", asker="nobody"))
        await app.store.sessions.stop(first.sid, actor="owner")
        assert (await ended(app, first)).reason is EndReason.STOPPED
        await app.gate.start_run(order("hi", key="c"))


async def test_no_read_up_by_the_place_of_a_run_that_read_more_than_its_pool_may_know(tmp_path: Path) -> None:
    """When it ends shows to nobody below: it keeps its place until the deadline that was fixed when it began."""
    reads = '!read_file {"path": "confidential/pipeline.md"}'
    async with running(tmp_path, policy(blocks={"runs": {"live": 1}})) as owner:
        app = owner.app
        run = await app.gate.start_run(order(BEGIN, reads, key="high"))
        assert (await ended(app, run)).reason is EndReason.COMPLETED
        assert (await state_of(app, run)).taint.secrecy == CONFIDENTIAL
        await RunTimers(app.store).fire(Timer(TimerKind.DEADLINE, run.sid, 0))
        with pytest.raises(BusyError):
            await app.gate.start_run(order("hi", key="low"))
        (place,) = await app.store.runs.slots("owner")
        assert (place.live, place.until) == (True, run.deadline + LATE)


async def test_simulate_equals_enforce_in_a_run(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        run = await app.gate.start_run(order(BEGIN))
        by = Simulating(standing(sid=run.sid, turn=""), HOME, TOP)
        report = await app.simulator.asked(by, await state_of(app, run), "current_time", {})
        rules = [rule for rule in cast("list[dict[str, str]]", report["rules"]) if rule["verdict"] == "BLOCK"]
        assert [rule["id"] for rule in rules] == ["run_is_initialized"]
