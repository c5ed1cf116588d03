"""Commands about runs, against a real store and a worker: one whole life, and what may not be told."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import pytest

from bot.commands.background.runs import BLIND, NONE
from bot.sessions.background.run_states import EndReason
from bot.sessions.background.runs import run_home
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState
from channels.messages import Address
from policy.labels import parse
from tests.bot.commands.kit import COUPLE
from tests.harness import SETTLED, Person, running

pytestmark = pytest.mark.anyio

MANUAL = "/runs start type=manual title=The_week slot=filing hours=2 "
INITIALIZE = '!session_initialize {"session_type": "manual"}'


async def started(person: Person, goal: str, command: str = MANUAL, principal: str = "owner") -> str:
    """Start a run by the command; return its id, of one that waits when its first turn has ended."""
    told = await person.say(f"{command}{goal}")
    (run,) = set(re.findall(r"r_[0-9a-f]{16}", told))
    if command == MANUAL:
        await settled(person, run, principal)
    return run


async def settled(person: Person, run: str, principal: str = "owner") -> SessionState:
    """Wait until nothing waits or runs in a run, or it has ended; return its session."""
    sid = person.app.session_id(run_home(principal, run))
    async with asyncio.timeout(60), person.app.store.changes.watching(sid) as feed:
        while True:
            state = await person.app.store.sessions.state(sid)
            assert state is not None
            if state.ended_at or (state.status in SETTLED and not state.waiting_items):
                return state
            with suppress(TimeoutError):
                await asyncio.wait_for(feed.next(), 1)


async def risen(person: Person, run: str, principal: str) -> None:
    """Let a run rise, by what comes into its inbox."""
    home = run_home(principal, run)
    sid = person.app.session_id(home)
    item = NewItem(sid, "up", principal, parse("CONFIDENTIAL"), SessionMessage("up"), str(home), principal)
    await person.app.store.sessions.accept(item)


async def test_a_run_is_started_seen_steered_rested_and_stopped(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        assert NONE in await owner.say("/runs")
        run = await started(owner, INITIALIZE)
        assert f"{run} running, manual, 0 done, 0 failed, taint PUBLIC: The week" in await owner.say("/runs list")
        shown = await owner.say(f"/runs show {run}")
        assert "Slot: filing\n" in shown
        assert "Title: The week" in shown
        assert "Steering notes that wait: 0" in shown
        numbers = await owner.say(f"/runs stats {run}")
        assert "Completed: 0 (no tasks yet)" in numbers
        log = await owner.say(f"/runs log {run}")
        assert "session_initialize, PUBLIC" in log
        assert "priority urgent" in await owner.say(f"/runs steer {run} urgent Leave out\nthe drafts.")
        assert "priority normal" in await owner.say(f"/runs steer {run} Say when you are done.")
        notes = await owner.app.store.runs.notes(owner.app.session_id(run_home("owner", run)))
        assert [(note.text, note.priority) for note in notes] == [
            ("Leave out\nthe drafts.", "urgent"),
            ("Say when you are done.", "normal"),
        ]
        assert "Steering notes that wait: 2" in await owner.say(f"/runs show {run}")
        assert "rests until" in await owner.say(f"/runs pause {run}")
        assert f"{run} paused" in await owner.say("/runs")
        assert "goes on" in await owner.say(f"/runs resume {run}")
        # The conversation's own stop is about that alone.
        await owner.say("/stop")
        assert f"{run} running" in await owner.say("/runs")
        assert f"Run {run} is stopping." in await owner.say(f"/runs stop {run}")
        state = await settled(owner, run)
        assert state.progress is not None
        assert state.progress.reason is EndReason.STOPPED
        assert NONE in await owner.say("/runs")
        assert f"{run} ended, stopped" in await owner.say("/runs list all")
        for line in (f"/runs steer {run} more", f"/runs pause {run}", f"/runs resume {run}", f"/runs stop {run}"):
            assert "This run has ended" in await owner.say(line)


async def test_an_autonomous_run_goes_on_until_it_is_done(tmp_path: Path) -> None:
    goal = '!session_initialize {"session_type": "autonomous"} ;; !session_update {"current_task_id": "a"}\n'
    async with running(tmp_path) as owner:
        run = await started(owner, f"{goal}!session_increment_completed {{}}", "/runs start ")
        while not (state := await settled(owner, run)).ended_at:
            pass
        assert state.progress is not None
        assert (state.progress.reason, state.progress.completed) == (EndReason.COMPLETED, 1)
        log = await owner.say(f"/runs log {run}")
        assert "the runtime, PUBLIC: Turn 1 of this run has ended." in log


async def test_no_read_up_a_run_that_rose_is_as_absent_and_stops_blindly(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        run, others = await started(bea, INITIALIZE, principal="bea"), await started(owner, INITIALIZE)
        await risen(bea, run, "bea")
        absent = f"r_{'0' * 16}"
        for action in ("show", "stats", "log", "pause", "resume", "steer"):
            more = " hurry" if action == "steer" else ""
            hidden = {await bea.say(f"/runs {action} {name}{more}") for name in (run, others, absent)}
            assert len(hidden) == 1
        assert NONE in await bea.say("/runs list all")
        assert {BLIND in await bea.say(f"/runs stop {name}") for name in (run, others, absent, run)} == {True}
        ended = (await settled(bea, run, "bea")).ended_at, (await settled(owner, others)).ended_at
        assert (ended[0] > 0, ended[1]) == (True, 0)
        # Given back here, its place would tell that it had not ended before.
        assert [place.live for place in await bea.app.store.runs.slots("bea")] == [True]


async def test_what_does_not_fit_is_answered_with_the_usage(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for odd, why in (
            ("what", "no such action"),
            ("show", "Name one run."),
            ("show a b", "Name one run."),
            ("start", "needs a goal"),
            ("start type=manual", "needs a goal"),
            ("start type=often go", "`autonomous` or `manual`"),
            ("start hours=0 go", "a whole number"),
            ("start hours=1 hours=2 go", "`hours=` is there twice"),
            ("start slot= go", "`slot=` has no value"),
            ("start hour=6 go", "there are `hours=`, `slot=`, `title=`, `to=`, `type=`"),
            ("list a b", ""),
            ("steer r_0", "A note needs a text"),
            ("steer r_0 ABORT", "A note needs a text"),
        ):
            told = await owner.say(f"/runs {odd}")
            assert why in told
            assert "Write it as `/runs [start" in told
        assert "at most 4000 characters" in await owner.say(f"/runs steer r_0 {'x' * 4001}")
