"""The first page of a person's sessions at three sizes, half of them hidden from whoever asks.

The sessions are written into the store as records and hints by a pipeline that is not measured; every other one is
CONFIDENTIAL and the caller PUBLIC. Measured is the store's `listed`: 50 records found, looked up again and read. The
reference reads 50 records whose ids it knows, in one pipeline of redis-py's own client, and no more. All sizes take
turns.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from bot.sessions.models import SessionQuery
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import labels_key, list_key, session_keys
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.bench.measure import Row, at_most, by_turns_async, ratio_at_most
from tests.bench.rig import idle_state

_SIZES: Final = (1_000, 10_000, 100_000)
_ROUNDS: Final = 60
_CHUNK: Final = 5_000
_LABELS: Final = ("PUBLIC", "CONFIDENTIAL")
_FIRST: Final = 1_700_000_000_000
_MOST_MS: Final = 3.0
_BARE_MS: Final = 1.6
"""What the records of one page took on the machine that the goal is stated for."""
_GROWTH: Final = 1.5

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        *pages, bare = [taken * 1000 for taken in asyncio.run(_measured(Path(folder)))]
    for size, page in zip(_SIZES, pages, strict=True):
        yield Row(f"sessions_list_{size // 1000}k", page, "ms", bare, at_most(_MOST_MS, machine=_BARE_MS))
    yield Row("sessions_list_growth", pages[-1], "ms", pages[0], ratio_at_most(_GROWTH))


async def _measured(folder: Path) -> list[float]:
    """Return the median seconds of a first page at each size, and of the records of one page alone."""
    supervisor = Supervisor(folder)
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    try:
        # The library leaves its signatures untyped.
        with cast("Any", Redis).from_url(supervisor.url) as client:
            for size in _SIZES:
                await asyncio.to_thread(_fill, client, size)
        async with cast("Any", AsyncRedis).from_url(supervisor.url, protocol=2) as client:
            pages = [_page(store, size) for size in _SIZES]
            return await by_turns_async(*pages, _records(client), rounds=_ROUNDS)
    finally:
        await store.close()
        await supervisor.detach()


def _fill(client: Any, size: int) -> None:  # noqa: ANN401 - the library's client
    """Write a principal's sessions: each a record, and filed where listings look."""
    who = f"p{size}"
    client.sadd(labels_key(who), *_LABELS)
    for begin in range(0, size, _CHUNK):
        with client.pipeline(transaction=False) as together:
            for n in range(begin, min(begin + _CHUNK, size)):
                label, sid = _LABELS[n % 2], f"{who}-{n}"
                together.hset(session_keys(sid).state, mapping=idle_state(who, _FIRST + n, label))
                together.zadd(list_key(who, label), {sid: _FIRST + n})
            together.execute()


def _page(store: RedisStore, size: int) -> Timed:
    asked = SessionQuery(f"p{size}", PUBLIC)

    async def timed() -> float:
        begin = time.perf_counter()
        page = await store.index.listed(asked)
        taken = time.perf_counter() - begin
        if len(page.sessions) != asked.limit or not page.cursor:
            raise RuntimeError("this is not the page that was asked for")
        return taken

    return timed


def _records(client: Any) -> Timed:  # noqa: ANN401 - the library's client
    names = [session_keys(f"p{_SIZES[0]}-{n}").state for n in range(50)]

    async def timed() -> float:
        begin = time.perf_counter()
        async with client.pipeline(transaction=False) as together:
            for name in names:
                together.hgetall(name)
            await together.execute()
        return time.perf_counter() - begin

    return timed
