"""What webhooks cost the store: two exchanges for each event, and nothing for those that nobody wants."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.sessions.log.events import Visibility
from tests.bot.clock import Clock
from tests.bot.webhooks.kit import Desk, begin, desk, hook_config
from tests.sim.receiver import Receiver, receiver
from tests.store.counting import Counting

pytestmark = pytest.mark.anyio

_LOOKS_A_SECOND = 2
"""A process reads once a second which policy is in force, and keeps its rights."""


@contextmanager
def counted(made: Desk) -> Generator[Counting]:
    """Count the exchanges of a process."""
    connection = made.app.store._shared.connection
    counting = Counting(connection._servers)
    connection._servers = counting
    try:
        yield counting
    finally:
        connection._servers = counting.servers


async def spent(made: Desk, here: Receiver, texts: list[tuple[str, ...]], level: Visibility) -> int:
    """Return the exchanges for events beyond the looks that a process makes anyway; each write is one exchange."""
    hook = await made.hook(here, level)
    session = await begin(made.app)
    await session.say("warm")
    async with made.sending(clock=Clock()):
        await made.noted(hook, session)
        loop, sent = asyncio.get_running_loop(), len(here.got)
        with counted(made) as counting:
            begun, before = loop.time(), counting.trips
            for one in texts:
                await session.say(*one)
                sent += len(one)
                await here.have(sent)
                await asyncio.sleep(0.02)
            took = loop.time() - begun
            looks = _LOOKS_A_SECOND * (int(took) + 1)
            return counting.trips - before - len(texts) - looks


async def trips_beyond_looks(counting: Counting) -> int:
    """Return the exchanges of about a second beyond the looks that a process makes anyway, however long it took."""
    loop = asyncio.get_running_loop()
    begun, before = loop.time(), counting.trips
    await asyncio.sleep(1)
    return counting.trips - before - _LOOKS_A_SECOND * (int(loop.time() - begun) + 1)


async def test_an_event_costs_two_exchanges_and_a_reading_of_secrets_a_second(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        begun = asyncio.get_running_loop().time()
        spent_in_all = await spent(made, here, [("one",)] * 40, Visibility.USER)
        seconds = int(asyncio.get_running_loop().time() - begun) + 1
        assert spent_in_all <= 2 * 40 + seconds


async def test_events_that_are_written_together_cost_no_more(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        begun = asyncio.get_running_loop().time()
        spent_in_all = await spent(made, here, [tuple(map(str, range(40)))], Visibility.USER)
        seconds = int(asyncio.get_running_loop().time() - begun) + 1
        assert spent_in_all <= 2 * 40 + seconds


async def test_what_passes_no_filter_is_read_and_not_noted(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook = await made.hook(here, Visibility.USER)
        session = await begin(made.app)
        await session.say("warm")
        async with made.sending(clock=Clock()):
            await made.noted(hook, session)
            loop = asyncio.get_running_loop()
            with counted(made) as counting:
                begun = loop.time()
                for _ in range(20):
                    await session.work()
                    await asyncio.sleep(0.02)
                await session.say("over")
                await here.have(3)
                looks = _LOOKS_A_SECOND * (int(loop.time() - begun) + 1)
                # Each write, at most one reading of each, and the event's own.
                assert counting.trips <= 21 + 20 + 3 + looks


async def test_a_process_without_events_asks_twice_a_second(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        for _ in range(5):
            await made.hook(here)
        async with made.sending(clock=Clock()):
            session = await begin(made.app)
            await session.say("warm")
            await here.have(10)
            with counted(made) as counting:
                spans = [await trips_beyond_looks(counting) for _ in range(3)]
            # What the deliveries before left to note falls into one of them.
            assert min(spans) <= 0
