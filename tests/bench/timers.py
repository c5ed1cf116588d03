"""Ten thousand timers that are due, taken and settled by one worker that has nothing else to do.

The reference does by bare commands what a sweep cannot do without: it finds 32 that are due, moves them on in the same
exchange as a worker that takes them does, and removes each by an exchange of its own, 32 at a time. Both use one server
that keeps what it is told before it answers.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from bot.sessions.background.schedules import Timer, TimerKind
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import TIMERS
from bot.store.servers.embedded_server import Supervisor
from bot.worker.timers import TimerSweep
from tests.bench.measure import Row, by_turns_async, ratio_at_most

_TIMERS: Final = 10_000
_ROUNDS: Final = 3
_BATCH: Final = 32
_BARE: Final = "bare"
_MOST: Final = 2.0

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        ours, bare = asyncio.run(_measured(Path(folder)))
    yield Row("timers_swept_10k", ours, "s", bare, ratio_at_most(_MOST))


async def _measured(folder: Path) -> list[float]:
    """Return the median seconds that ten thousand timers take a worker, and bare commands."""
    supervisor = Supervisor(folder)
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    try:
        # The library leaves its signatures untyped.
        with cast("Any", Redis).from_url(supervisor.url) as client:
            async with cast("Any", AsyncRedis).from_url(supervisor.url, protocol=2) as bare:
                return await by_turns_async(_swept(store, client), _removed(bare, client), rounds=_ROUNDS)
    finally:
        await store.close()
        await supervisor.detach()


def _fill(client: Any, key: str | bytes) -> None:  # noqa: ANN401 - the library's client
    client.zadd(key, {f"{TimerKind.PROBE.value}/{number}": number + 1 for number in range(_TIMERS)})


def _swept(store: RedisStore, client: Any) -> Timed:  # noqa: ANN401 - the library's client
    async def timed() -> float:
        await asyncio.to_thread(_fill, client, TIMERS)
        set_off, over = 0, asyncio.Event()

        async def part(_timer: Timer) -> None:
            nonlocal set_off
            set_off += 1
            if set_off == _TIMERS:
                over.set()

        sweep = TimerSweep(store.schedules, {TimerKind.PROBE: part}, _always, hold=600_000)
        begin = time.perf_counter()
        serving = asyncio.create_task(sweep.serve())
        await over.wait()
        while await store.schedules.next_due() >= 0:
            await asyncio.sleep(0)
        taken = time.perf_counter() - begin
        serving.cancel()
        await asyncio.wait([serving])
        return taken

    return timed


async def _always() -> bool:
    return True


def _removed(bare: Any, client: Any) -> Timed:  # noqa: ANN401 - the library's client
    async def timed() -> float:
        await asyncio.to_thread(_fill, client, _BARE)
        begin = time.perf_counter()
        while names := await bare.zrangebyscore(_BARE, "-inf", _TIMERS, start=0, num=_BATCH):
            await bare.zadd(_BARE, dict.fromkeys(names, 2 * _TIMERS))
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    tasks.create_task(bare.zrem(_BARE, name))
        return time.perf_counter() - begin

    return timed
