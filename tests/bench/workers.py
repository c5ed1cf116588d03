"""Turns a second with one, two and four worker processes on one store, and how soon a killed one is replaced.

The store's server shares the machine with the workers. Each round leaves as many first messages of as many people in
the store, and lets the workers begin: what counts are the turns after the first few, up to the last few. The reference
of several workers is one. Measured are turns that only answer, and turns that make two calls, as of an agent that works
with its tools: of the former the store's part is larger. A worker that is killed runs a tool at that moment; what is
measured is the time until another one has claimed the session, at worst of some kills. With a lease of two seconds and
a sweep every two seconds that may take four.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bot.app.app import App
from bot.app.opening import open_app
from bot.delivery.sweep import SWEEP_SECONDS
from channels.messages import Address, Inbound
from tests.bench.measure import Row, at_most, by_turns_async, ratio_at_least
from tests.bench.rig import READ, Mouth, crowd_config
from tests.bot.kit import bang
from tests.chaos.storm import Storm, Worker, opened
from tests.chaos.storm_plan import LEASE_SECONDS, FaultKind, Input, Plan, Size

_ROOT: Final = Path(__file__).parents[2]
_PEOPLE: Final = 40
_TURNS: Final = 800
_CALLING_TURNS: Final = 400
"""How many turns a round has: of those that only answer, and of those that make two calls."""
_EDGE: Final = 0.08
"""The share of turns that is left out at the beginning and at the end of a round."""
_ROUNDS: Final = 5
_LONGEST: Final = 45.0
_KILLS: Final = 5
_PATIENCE: Final = 60.0


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        two, one, four = asyncio.run(_throughput(Path(folder), _TURNS, "When is it?"))
    yield Row("turns_with_2_workers", 1 / two, "turns/s", 1 / one, ratio_at_least(1.4))
    yield Row("turns_with_4_workers", 1 / four, "turns/s", 1 / one, ratio_at_least(1.2))
    with TemporaryDirectory(prefix="lgb") as folder:
        two, one, four = asyncio.run(_throughput(Path(folder), _CALLING_TURNS, READ))
    yield Row("calling_turns_with_2_workers", 1 / two, "turns/s", 1 / one, ratio_at_least(1.4))
    yield Row("calling_turns_with_4_workers", 1 / four, "turns/s", 1 / one, ratio_at_least(1.2))
    with TemporaryDirectory(prefix="lgb") as folder:
        taken = asyncio.run(_recoveries(Path(folder)))
    yield Row("recovery_after_kill", max(taken), "s", None, at_most(LEASE_SECONDS + SWEEP_SECONDS))


@dataclass
class _Worker:
    """A worker process; `answered` is set to the moments at which it answered."""

    process: asyncio.subprocess.Process
    answered: list[float] = field(default_factory=list[float])
    _ready: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def listen(self) -> None:
        """Note what it tells, until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            moments = [float(moment) for moment in line.split()]
            self.answered += moments
            if not moments:
                self._ready.release()

    async def ready(self) -> None:
        """Wait until it has done what it was told."""
        await self._ready.acquire()

    async def turn_over(self) -> None:
        """Let it work, or rest."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        await self.ready()


@dataclass
class _Fleet:
    """Worker processes that wait to be told to work, and a process that takes inputs in."""

    app: App
    workers: list[_Worker]
    _count: "count[int]" = field(default_factory=count)

    async def turn(self, workers: int, turns: int, text: str) -> float:
        """Return the seconds of one of so many turns about a text, with so many workers at work."""
        round_, told = next(self._count), self.workers[:workers]
        for number in range(turns):
            person = f"p{number % _PEOPLE}"
            address = Address("console", person, thread=f"{round_}-{number}")
            await self.app.router.receive(Inbound(address, f"console:{person}", text, f"{round_}-{number}"))
        for worker in told:
            worker.answered.clear()
        async with asyncio.timeout(_PATIENCE):
            for worker in told:
                await worker.turn_over()
            while sum(len(worker.answered) for worker in told) < turns:  # noqa: ASYNC110 - several tell of it
                await asyncio.sleep(0.02)
            for worker in told:
                await worker.turn_over()
        moments = sorted(moment for worker in told for moment in worker.answered)
        edge = round(turns * _EDGE)
        return (moments[-edge] - moments[edge]) / (turns - 2 * edge)


@asynccontextmanager
async def _fleet(folder: Path, size: int) -> AsyncGenerator[_Fleet]:
    """Start workers, which wait to be told to work."""
    accounts = [f"console:p{number}" for number in range(_PEOPLE)]
    config = crowd_config(folder, {}, accounts, limits={"person_messages_per_minute": 100_000})
    async with AsyncExitStack() as until:
        app = await until.enter_async_context(open_app(config, [Mouth()], {}))
        assert app.store.server is not None
        listening = await until.enter_async_context(asyncio.TaskGroup())
        workers = list[_Worker]()
        for _ in range(size):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.bench.worker", str(folder / "config.yaml"), app.store.server.url),
                cwd=_ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            workers.append(_Worker(process))
            listening.create_task(workers[-1].listen())
        for worker in workers:
            await worker.ready()
        try:
            yield _Fleet(app, workers)
        finally:
            for worker in workers:
                assert worker.process.stdin is not None
                worker.process.stdin.close()
                await worker.process.wait()


async def _throughput(folder: Path, turns: int, text: str) -> list[float]:
    """Return the seconds of a turn about a text with two workers, with one, and with four."""
    async with _fleet(folder, 4) as fleet:
        # Each imports what it needs at its first turn.
        await fleet.turn(4, turns, text)
        one, two, four = (lambda workers=workers: fleet.turn(workers, turns, text) for workers in (1, 2, 4))
        return await by_turns_async(two, one, four, rounds=_ROUNDS, longest=_LONGEST)


async def _recoveries(folder: Path) -> list[float]:
    """Return how many seconds each session waited for another worker when its own was killed."""
    inputs = [Input(0, chat, 0, bang("step", say="done", seconds=2.0)) for chat in range(_KILLS)]
    async with opened(folder, Plan(tuple(inputs), (), frozenset()), Size(workers=2)) as storm:
        for worker in storm.workers:
            await storm.begin(worker)
        try:
            for one in inputs:
                await storm.speak([one], 0)
                await storm.kill(await _at_work(storm), pause=0.1)
        finally:
            await storm.end_workers()
        return storm.recovery[FaultKind.KILL]


async def _at_work(storm: Storm) -> Worker:
    """Wait until a worker runs a turn, and return it."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            for worker in storm.workers:
                if await storm.takeovers.held(storm.platform.processes.get(worker.pid, "")):
                    return worker
            await asyncio.sleep(0.01)
