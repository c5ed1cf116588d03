"""Slots for turns: places in a pool, who gets them, and what a session holds that waits for one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from bot.worker.turn_slots import CrowdedError, TurnPool, TurnSlots
from policy.labels import Label, Level

pytestmark = pytest.mark.anyio

_LABEL = Label(Level.PUBLIC)


class _Sessions:
    """Sessions of some principals that want to run; each notes when it begins."""

    def __init__(self, parallel: int, moment: float) -> None:
        self.slots = TurnSlots(parallel, moment)
        self.ran = list[str]()
        self.crowded = list[str]()
        self._ends = dict[str, asyncio.Event]()
        self.tasks = dict[str, asyncio.Task[None]]()

    async def begin(self, *names: str) -> None:
        """Let sessions come in this order; the letter of a name is its principal, an upper one is of a task."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(name))
            await asyncio.sleep(0)
        await self.settle()

    async def end(self, name: str) -> None:
        """End a turn, and let happen what comes of it."""
        self._ends[name].set()
        await self.tasks[name]
        await self.settle()

    async def cancel(self, name: str) -> None:
        """Cancel a session, and let happen what comes of it."""
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        assert await self.slots.acquire(1)
        held = True
        try:
            async with self.slots.place(TurnPool(name[0].lower(), _LABEL, background=name[0].isupper())):
                self.ran.append(name)
                await self._ends[name].wait()
        except CrowdedError:
            held = False
            self.crowded.append(name)
        finally:
            if held:
                self.slots.release()


@asynccontextmanager
async def _sessions(parallel: int, moment: float = 600) -> AsyncGenerator[_Sessions]:
    sessions = _Sessions(parallel, moment)
    yield sessions
    for name in list(sessions.tasks):
        await sessions.cancel(name)
    assert sessions.slots.free == parallel


async def test_those_that_wait_get_a_place_in_the_order_in_which_they_came() -> None:
    async with _sessions(4) as sessions:
        await sessions.begin("a1", "a2", "a3", "a4", "a5")
        assert sessions.ran == ["a1", "a2"]
        await sessions.end("a2")
        assert sessions.ran == ["a1", "a2", "a3"]
        # One that comes now has no precedence over those that wait.
        await sessions.begin("a6")
        await sessions.end("a1")
        await sessions.end("a3")
        assert sessions.ran == ["a1", "a2", "a3", "a4", "a5"]
        await sessions.end("a4")
        assert sessions.ran[-1] == "a6"


async def test_a_session_that_waits_holds_no_slot() -> None:
    async with _sessions(4) as sessions:
        await sessions.begin("a1", "a2", "a3", "a4", "a5")
        assert sessions.slots.free == 2
        await sessions.begin("b1")
        assert sessions.ran[-1] == "b1"


async def test_a_place_that_any_turn_leaves_is_given_to_a_pool_that_has_room_then() -> None:
    async with _sessions(4) as sessions:
        await sessions.begin("b1", "b2", "a1", "a2")
        assert sessions.ran == ["b1", "b2", "a1"]
        await sessions.end("b1")
        assert sessions.ran[-1] == "a2"


async def test_a_session_without_a_place_is_left_after_a_moment_and_holds_no_slot() -> None:
    async with _sessions(4, moment=0.2) as sessions:
        await sessions.begin("a1", "a2", "a3")
        async with asyncio.timeout(60):
            await asyncio.wait({sessions.tasks["a3"]})
        assert sessions.crowded == ["a3"]
        assert sessions.slots.free == 2
        await sessions.end("a1")
        await sessions.begin("a4")
        assert sessions.ran == ["a1", "a2", "a4"]


@pytest.mark.parametrize("gone", ["a3", "a4"])
async def test_a_session_that_is_cancelled_while_it_waits_keeps_nobody_waiting(gone: str) -> None:
    async with _sessions(4) as sessions:
        await sessions.begin("a1", "a2", "a3", "a4", "a5")
        await sessions.cancel(gone)
        await sessions.end("a1")
        await sessions.end("a2")
        assert sessions.ran[2:] == [name for name in ("a3", "a4", "a5") if name != gone]


async def test_conversations_have_places_of_their_own_beside_background_sessions() -> None:
    async with _sessions(4) as sessions:
        await sessions.begin("A1", "A2", "A3", "A4")
        assert sessions.ran == ["A1", "A2"]
        await sessions.begin("a1")
        assert sessions.ran[-1] == "a1"
        # Together they do not take the last slot.
        await sessions.begin("a2")
        assert sessions.ran[-1] == "a1"
        await sessions.begin("b1")
        assert sessions.ran[-1] == "b1"
