"""A worker that is told to end: it takes nothing on, lets turns end, and hands on what still runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from bot.sessions.log.event_types import YieldReason
from bot.sessions.models import Status
from bot.tools.base import Result, ToolContext, ToolServices
from tests.bot.kit import Probe, TextArguments, bang, eventually, parts, policy, results
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


class Slow:
    """A call that goes on until it is let go."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.let_go = asyncio.Event()

    async def __call__(self, _arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        self.started.set()
        await self.let_go.wait()
        return Result("done at last")


@asynccontextmanager
async def begun(folder: Path, seconds: float, slow: Slow) -> AsyncGenerator[Person]:
    """Run a turn whose call goes on, with so much time for it once its worker is told to end."""
    config = policy(blocks={"limits": {"drain_seconds": seconds}, "store": {"lease_seconds": 600}})
    async with running(folder, config, parts=parts(Probe(does=slow)), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.send(bang("probe"))
        await asyncio.wait_for(slow.started.wait(), 60)
        yield owner
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_a_turn_that_ends_in_time_is_not_handed_on_and_nothing_is_taken_on(tmp_path: Path) -> None:
    slow = Slow()
    async with begun(tmp_path, 60, slow) as owner:
        drained = asyncio.create_task(owner.app.drain(asyncio.Event()))
        await asyncio.sleep(0.1)
        await owner.send("and then?")
        slow.let_go.set()
        assert await asyncio.wait_for(drained, 60) == 0
        assert "done at last" in owner.shown
        await asyncio.sleep(2.5)  # longer than a sweep
        state = await owner.state()
        assert (state.status, state.waiting_items, state.turn) == (Status.QUEUED, 1, None)
        assert await owner.app.store.wake.ready(wait=1) == (owner.sid,)


@pytest.mark.parametrize("hurried", [False, True])
async def test_one_that_does_not_is_handed_on_at_once(tmp_path: Path, *, hurried: bool) -> None:
    slow, hurry = Slow(), asyncio.Event()
    seconds = 600 if hurried else 0.5
    async with begun(tmp_path, seconds, slow) as owner:
        begin = anyio.current_time()
        drained = asyncio.create_task(owner.app.drain(hurry))
        if hurried:
            await asyncio.sleep(0.2)
            assert not drained.done()
            hurry.set()
        assert await asyncio.wait_for(drained, 60) == 1
        assert hurried or anyio.current_time() - begin >= seconds
        state = await owner.state()
        assert state.turn is not None
        assert (state.status, state.turn.attempt, state.turn.handed) == (Status.RUNNING, 1, 1)
        slow.let_go.set()
        async with running(tmp_path, parts=parts(Probe(does=slow))) as another:
            # Its lease would have lasted for ten minutes.
            after = await another.settled()
            assert after is not None
            assert after.last_turn is not None
            assert after.last_turn.reason is YieldReason.COMPLETED
            assert results(await another.events()) == [("probe", "ok")]


async def test_a_worker_without_turns_ends_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"limits": {"drain_seconds": 600}})) as owner:
        await owner.say("hello")
        async with asyncio.timeout(60):
            assert await owner.app.drain(asyncio.Event()) == 0


async def test_a_process_that_runs_no_turns_has_none_to_hand_on(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        assert await owner.app.drain(asyncio.Event()) == 0


async def test_a_turn_that_only_begins_to_open_is_handed_on_too(tmp_path: Path) -> None:
    config = policy(blocks={"limits": {"drain_seconds": 0}, "store": {"lease_seconds": 600}})
    async with running(tmp_path, config) as owner:
        await owner.send("hello")
        await owner.app.drain(asyncio.Event())

        async def free() -> bool:
            claim = await owner.app.store.sessions.claim(owner.sid, "another")
            return claim is not None or (await owner.state()).status is Status.IDLE

        await eventually(free)
