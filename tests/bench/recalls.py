"""Recall among ten thousand memories of one label, and what a process holds of a hundred thousand.

The memories are written into the store as records by a pipeline that is not measured. They are 25 words each, a few of
which are in nearly every text, as in any language; a query is three words of the middle. Measured is `recall` whose
index is up to date. The reference is the same query to a bare table of FTS5 with the same texts, and two bare exchanges
with the store: the versions, and the records of what was found. Memory is what a process that has done nothing else
holds more after its first recall than before; how long that recall took is told on standard error.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import accumulate, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from bot.knowledge.recall import KnowledgeSearch
from bot.store.opening import open_store
from bot.store.records.form import pack
from bot.store.records.kinds import MEMORY
from bot.store.redis_store import RedisStore
from bot.store.schema import memory_keys
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.bench.measure import Row, at_most, by_turns_async, warm

_SIZE: Final = 10_000
_LARGE: Final = 100_000
_ROUNDS: Final = 60
_CHUNK: Final = 5_000
_WORDS: Final = 8_000
_LENGTH: Final = 25
_QUERIES: Final = 50
_LIMIT: Final = 10
_FIRST: Final = 1_700_000_000_000
_MOST_MS: Final = 5.0
_BARE_MS: Final = 0.6
"""What the reference took on the machine that the goal is stated for."""
_MOST_MB: Final = 100
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        ours, bare, megabytes, first = asyncio.run(_measured(Path(folder)))
    print(f"first recall among {_LARGE} memories: {first:.1f} s", file=sys.stderr)
    yield Row("recall_10k", ours * 1000, "ms", bare * 1000, at_most(_MOST_MS, machine=_BARE_MS))
    yield Row("knowledge_memory_100k", megabytes, "MB", None, at_most(_MOST_MB))


async def _measured(folder: Path) -> tuple[float, float, float, float]:
    """Return the median seconds of a recall and of its reference, and MB and seconds of the first one among many."""
    supervisor = Supervisor(folder)
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    search = KnowledgeSearch(store.memories)
    chance = random.Random(1)  # noqa: S311 - texts, not secrets
    words = ["".join(chance.choices(_LETTERS, k=chance.randint(3, 9))) for _ in range(_WORDS)]
    texts = list(_texts(chance, words, _SIZE))
    queries = [" ".join(chance.sample(words[100:2_000], 3)) for _ in range(_QUERIES)]
    try:
        # The library leaves its signatures untyped.
        with cast("Any", Redis).from_url(supervisor.url) as client:
            await asyncio.to_thread(_fill, client, "some", texts)
            await asyncio.to_thread(_fill, client, "many", list(_texts(chance, words, _LARGE)))
        megabytes, first = await asyncio.to_thread(_alone, supervisor.url, queries[0])
        async with cast("Any", AsyncRedis).from_url(supervisor.url, protocol=2) as client:
            with closing(await asyncio.to_thread(_table, texts)) as table:
                work = _recall(search, queries), _bare(table, client, queries)
                await warm(*work, rounds=5)
                ours, bare = await by_turns_async(*work, rounds=_ROUNDS)
                return ours, bare, megabytes, first
    finally:
        await search.close()
        await store.close()
        await supervisor.detach()


def _texts(chance: random.Random, words: list[str], size: int) -> Iterator[str]:
    """Yield texts whose words are as often as those of a language: the tenth a tenth as often as the first."""
    weights = list(accumulate(1 / (place + 1) for place in range(len(words))))
    for _ in range(size):
        yield " ".join(chance.choices(words, cum_weights=weights, k=_LENGTH))


def _fill(client: Any, who: str, texts: list[str]) -> None:  # noqa: ANN401 - the library's client
    """Write a principal's memories: each a record, and filed by its version."""
    keys = memory_keys(who, str(PUBLIC))
    records = {_id(n): pack(MEMORY, {"text": text, "created": _FIRST + n}) for n, text in enumerate(texts)}
    names = list(records)
    for begin in range(0, len(names), _CHUNK):
        some = names[begin : begin + _CHUNK]
        client.hset(keys.memories, mapping={name: records[name] for name in some})
        client.zadd(keys.changed, {name: begin + place for place, name in enumerate(some, 1)})
    client.hset(keys.versions, str(PUBLIC), len(names))


def _id(number: int) -> str:
    return f"mem_{number:012x}"


def _recall(search: KnowledgeSearch, queries: list[str]) -> Timed:
    asked = cycle(queries)

    async def timed() -> float:
        query = next(asked)
        begin = time.perf_counter()
        found = await search.recall("some", PUBLIC, query, limit=_LIMIT)
        taken = time.perf_counter() - begin
        if len(found) != _LIMIT:
            raise RuntimeError("as many memories as were asked for should be found")
        return taken

    return timed


def _table(texts: list[str]) -> sqlite3.Connection:
    """Return a bare table of FTS5, to be used in any thread."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE VIRTUAL TABLE bare USING fts5(text)")
    database.executemany("INSERT INTO bare (rowid, text) VALUES (?, ?)", enumerate(texts))
    return database


def _bare(table: sqlite3.Connection, client: Any, queries: list[str]) -> Timed:  # noqa: ANN401 - the library's client
    asked, keys = cycle(queries), memory_keys("some", str(PUBLIC))

    async def timed() -> float:
        match = " OR ".join(next(asked).split())
        begin = time.perf_counter()
        await client.hgetall(keys.versions)
        found = table.execute("SELECT rowid FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?", (match, _LIMIT))
        await client.hmget(keys.memories, [_id(number) for (number,) in found.fetchall()])
        return time.perf_counter() - begin

    return timed


def _alone(url: str, query: str) -> tuple[float, float]:
    """Let a process of its own recall once; return how much memory that took it, in MB, and how many seconds."""
    process = subprocess.run(
        (sys.executable, "-m", "tests.bench.recalls", url, query), stdout=subprocess.PIPE, check=True, text=True
    )
    megabytes, seconds = json.loads(process.stdout)
    return megabytes, seconds


async def _once(url: str, query: str) -> tuple[float, float]:
    store = await open_store(audit_key=bytes(32), url=url)
    search = KnowledgeSearch(store.memories)
    try:
        await _found(store, search, "nobody", query)
        before, begin = _resident(), time.perf_counter()
        await _found(store, search, "many", query)
        return _resident() - before, time.perf_counter() - begin
    finally:
        await search.close()
        await store.close()


async def _found(store: RedisStore, search: KnowledgeSearch, who: str, query: str) -> None:
    await store.memories.uses(who, [PUBLIC], [_id(0)])
    await search.recall(who, PUBLIC, query, limit=_LIMIT)


def _resident() -> float:
    """Return how much memory this process holds, in MB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("this system does not tell how much memory a process holds")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_once(sys.argv[1], sys.argv[2]))))
