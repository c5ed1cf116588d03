"""A message with 100,000 sessions in the store, against one with 1,000, and the first answer after a restart.

The sessions are written as idle ones are: record, log, audit chain, and filed for listings. The application is opened
on one store after the other, several times, and talked to for longer than anything that it does in the background by
itself takes to come round. Each time the store's own server was stopped before, so it reads its disk first. Medians are
of all messages of such stretches, and of the first answers.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis

from bot.store.records.form import pack
from bot.store.records.kinds import AUDIT_ROW, EVENT
from bot.store.schema import RECENT, labels_key, list_key, session_keys
from bot.store.servers.embedded_server import Supervisor
from tests.bench.measure import Row, at_most, ratio_at_most
from tests.bench.rig import Bench, bench, idle_state

_SIZES: Final = (1_000, 100_000)
_STRETCHES: Final = 3
_SECONDS: Final = 13.0
_THREADS: Final = 20
_CHUNK: Final = 2_000
_FIRST: Final = 1_700_000_000_000
_EVENTS: Final = 4


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        few, many, first, bare = asyncio.run(_measured(Path(folder)))
    yield Row("message_100k_sessions", many * 1e3, "ms", few * 1e3, ratio_at_most(1.5))
    yield Row("first_answer_100k_sessions", first, "s", bare, at_most(2))


async def _measured(folder: Path) -> tuple[float, float, float, float]:
    """Return the median seconds of a message at each size, of the first answer, and of the start of its store alone."""
    places = [folder / str(size) for size in _SIZES]
    for place, size in zip(places, _SIZES, strict=True):
        (place / "data").mkdir(parents=True)
        supervisor = Supervisor(place / "data")
        await supervisor.attach()
        with cast("Any", Redis).from_url(supervisor.url) as client:
            await asyncio.to_thread(_fill, client, size)
        await supervisor.detach()
    bare = list[float]()
    taken: list[list[float]] = [[] for _ in _SIZES]
    firsts: list[list[float]] = [[] for _ in _SIZES]
    for stretch in range(_STRETCHES):
        for place, times, first in zip(places, taken, firsts, strict=True):
            bare.append(await _started(place))
            begin = time.perf_counter()
            async with bench(place) as lockgate:
                await lockgate.ask("When is it?", f"first{stretch}")
                first.append(time.perf_counter() - begin)
                times.extend(await _stretch(lockgate, stretch))
    few, many = (median(times) for times in taken)
    return few, many, median(firsts[-1]), median(bare[1::2])


async def _started(place: Path) -> float:
    """Return the seconds that a store's server takes to start, with nothing but what it has on its disk."""
    supervisor, begin = Supervisor(place / "data"), time.perf_counter()
    await supervisor.attach()
    taken = time.perf_counter() - begin
    await supervisor.detach()
    return taken


async def _stretch(lockgate: Bench, stretch: int) -> list[float]:
    end, taken = time.perf_counter() + _SECONDS, list[float]()
    while time.perf_counter() < end:
        taken.append(await lockgate.ask("When is it?", f"{stretch}-{len(taken) % _THREADS}"))
    return taken


def _fill(client: Any, size: int) -> None:  # noqa: ANN401 - the library's client
    """Write sessions as they are when a turn was run in them."""
    who, label = "owner", "PUBLIC"
    client.sadd(labels_key(who), label)
    for begin in range(0, size, _CHUNK):
        with client.pipeline(transaction=False) as together:
            for n in range(begin, min(begin + _CHUNK, size)):
                sid, at = f"s{n:032}", _FIRST + n
                keys = session_keys(sid)
                together.hset(keys.state, mapping=idle_state(who, at, label, home=f"console::owner:{n}", seq=_EVENTS))
                told = {"time": at, "generation": 1, "type": "error.turn", "actor": "w", "label": label, "body": "{}"}
                entry = pack(EVENT, told)
                row = pack(AUDIT_ROW, {"time": at, "kind": "read", "actor": "owner", "body": "{}", "hash": "h" * 43})
                for seq in range(1, _EVENTS + 1):
                    together.xadd(keys.log, {"e": entry}, id=f"{seq}-0")
                together.rpush(keys.audit, *[row] * 4)
                together.zadd(list_key(who, label), {sid: at})
                together.zadd(RECENT, {sid: at})
            together.execute()
