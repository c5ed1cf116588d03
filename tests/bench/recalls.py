"""Recall among ten thousand memories of one label, beside as many that are hidden, and what a hundred thousand take.

The memories are written into the store as records by a pipeline that is not measured. They are 25 words each, a few of
which are in nearly every text, as in any language; a query is three words of the middle. Measured is a whole call of
`memory` through the gate: both decisions, their rows in the audit, the recall by an index that is up to date, and the
count of uses. The reference is the same query to a bare table of FTS5 with the same texts, and bare exchanges with the
store: the versions, the records of what was found, and three writes.

What is hidden is CONFIDENTIAL, of one principal whose PUBLIC memories are recalled at PUBLIC; the reference is the same
recall of one who has nothing hidden. Memory is what a process that has done nothing else holds more after its first
recall than before; how long that recall took is told on standard error.
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
from dataclasses import dataclass
from itertools import accumulate, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from bot.access.authorize import Caller, Ingress
from bot.access.decision_context import Call, DecisionContext
from bot.app.app import App
from bot.knowledge.recall import KnowledgeSearch
from bot.operations.gated_calls import RefusedCall
from bot.store.opening import open_store
from bot.store.records.form import pack
from bot.store.records.kinds import MEMORY
from bot.store.redis_store import RedisStore
from bot.store.schema import memory_keys
from bot.store.servers.embedded_server import Supervisor
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Role
from tests.bench.measure import Row, at_most, by_turns_async, ratio_at_most, warm
from tests.bench.rig import bench

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
_BARE_MS: Final = 1.5
"""What the reference takes on the machine that the goal is stated for, where a commit takes 0.3 ms."""
_MOST_MB: Final = 100
_SEEN: Final = 2_000
_HIDDEN: Final = parse("CONFIDENTIAL")
_MOST_TELLING: Final = 1.1
"""How much longer a recall may take beside what is hidden: as much as two runs of the same differ."""

_WRITES: Final = 3
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        found = asyncio.run(_measured(Path(folder)))
    print(f"first recall among {_LARGE} memories: {found.first:.1f} s", file=sys.stderr)
    yield Row("recall_10k", found.ours * 1000, "ms", found.bare * 1000, at_most(_MOST_MS, machine=_BARE_MS))
    beside, alone = found.beside * 1000, found.alone * 1000
    yield Row("recall_beside_10k_hidden", beside, "ms", alone, ratio_at_most(_MOST_TELLING))
    yield Row("knowledge_memory_100k", found.megabytes, "MB", None, at_most(_MOST_MB))


@dataclass(frozen=True, slots=True)
class _Measured:
    """Median seconds of a call and of its reference, of recalls beside hidden memories and `alone`, and the first one.

    That one is among many: it took so many MB and `first` seconds.
    """

    ours: float
    bare: float
    beside: float
    alone: float
    megabytes: float
    first: float


async def _measured(folder: Path) -> _Measured:
    supervisor = Supervisor(folder / "server")
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    search = KnowledgeSearch(store.memories)
    chance = random.Random(1)  # noqa: S311 - texts, not secrets
    words = words_of(chance)
    texts = list(texts_of(chance, words, _SIZE))
    queries = [" ".join(chance.sample(words[100:2_000], 3)) for _ in range(_QUERIES)]
    try:
        # The library leaves its signatures untyped.
        with cast("Any", Redis).from_url(supervisor.url) as client:
            await asyncio.to_thread(fill, client, "owner", texts)
            await asyncio.to_thread(fill, client, "alone", texts[:_SEEN])
            await asyncio.to_thread(fill, client, "beside", texts[:_SEEN])
            await asyncio.to_thread(fill, client, "beside", texts, _HIDDEN)
            await asyncio.to_thread(fill, client, "many", list(texts_of(chance, words, _LARGE)))
        megabytes, first = await asyncio.to_thread(_alone, supervisor.url, queries[0])
        async with cast("Any", AsyncRedis).from_url(supervisor.url, protocol=2) as client:
            work = [_recall(search, who, queries) for who in ("beside", "alone")]
            await warm(*work, rounds=5)
            beside, alone = await by_turns_async(*work, rounds=_ROUNDS)
            with closing(await asyncio.to_thread(bare_table, texts)) as table:
                async with bench(folder, supervisor.url) as lockgate:
                    work = [await _call(lockgate.app, queries), _bare(table, client, queries)]
                    await warm(*work, rounds=5)
                    ours, bare = await by_turns_async(*work, rounds=_ROUNDS)
                    return _Measured(ours, bare, beside, alone, megabytes, first)
    finally:
        await search.close()
        await store.close()
        await supervisor.detach()


def words_of(chance: random.Random) -> list[str]:
    """Return the words of a language, the commonest first."""
    return ["".join(chance.choices(_LETTERS, k=chance.randint(3, 9))) for _ in range(_WORDS)]


def texts_of(chance: random.Random, words: list[str], size: int) -> Iterator[str]:
    """Yield texts whose words are as often as those of a language: the tenth a tenth as often as the first."""
    weights = list(accumulate(1 / (place + 1) for place in range(len(words))))
    for _ in range(size):
        yield " ".join(chance.choices(words, cum_weights=weights, k=_LENGTH))


def fill(client: Any, who: str, texts: list[str], label: Label = PUBLIC) -> None:  # noqa: ANN401 - the library's client
    """Write a principal's memories: each a record, and filed by its version."""
    keys = memory_keys(who, str(label))
    records = {memory_id(n): pack(MEMORY, {"text": text, "created": _FIRST + n}) for n, text in enumerate(texts)}
    names = list(records)
    for begin in range(0, len(names), _CHUNK):
        some = names[begin : begin + _CHUNK]
        client.hset(keys.memories, mapping={name: records[name] for name in some})
        client.zadd(keys.changed, {name: begin + place for place, name in enumerate(some, 1)})
    client.hset(keys.versions, str(label), len(names))


def memory_id(number: int) -> str:
    return f"mem_{number:012x}"


async def _call(app: App, queries: list[str]) -> Timed:
    """Return a call of `memory` as the gate makes it for its owner, who has read nothing."""
    asked, address = cycle(queries), Address("console", "owner")
    there = await app.gate.readers.destination(address)
    caller = Caller("owner", Role.OWNER, app.gate.document.top, Ingress.COMMAND)
    standing = DecisionContext.of_caller(caller, address, there, app.clock.wall_ms())

    async def timed() -> float:
        given = {"action": "recall", "query": next(asked), "limit": _LIMIT}
        begin = time.perf_counter()
        made = await app.calls.made(standing, Call(app.ids.op(), "memory", given), PUBLIC)
        taken = time.perf_counter() - begin
        if isinstance(made, RefusedCall) or len(json.loads(made.text)["memories"]) != _LIMIT:
            raise RuntimeError("as many memories as were asked for should be found")
        return taken

    return timed


def _recall(search: KnowledgeSearch, who: str, queries: list[str]) -> Timed:
    asked = cycle(queries)

    async def timed() -> float:
        query = next(asked)
        begin = time.perf_counter()
        found = await search.recall(who, PUBLIC, query, limit=_LIMIT)
        taken = time.perf_counter() - begin
        if not found or {memory.label for memory in found} != {PUBLIC}:
            raise RuntimeError("what may be known of should be found, and nothing else")
        return taken

    return timed


def bare_table(texts: list[str]) -> sqlite3.Connection:
    """Return a bare table of FTS5, to be used in any thread."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE VIRTUAL TABLE bare USING fts5(text)")
    database.executemany("INSERT INTO bare (rowid, text) VALUES (?, ?)", enumerate(texts))
    return database


def _bare(table: sqlite3.Connection, client: Any, queries: list[str]) -> Timed:  # noqa: ANN401 - the library's client
    asked, keys = cycle(queries), memory_keys("owner", str(PUBLIC))

    async def timed() -> float:
        match = " OR ".join(next(asked).split())
        begin = time.perf_counter()
        await client.hgetall(keys.versions)
        found = table.execute("SELECT rowid FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?", (match, _LIMIT))
        names = [memory_id(number) for (number,) in found.fetchall()]
        await client.hmget(keys.memories, names)
        for _ in range(_WRITES):
            await client.xadd("{bare}", {"row": " ".join(names)})
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
    await store.memories.uses(who, [PUBLIC], [memory_id(0)])
    await search.recall(who, PUBLIC, query, limit=_LIMIT)


def _resident() -> float:
    """Return how much memory this process holds, in MB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("this system does not tell how much memory a process holds")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_once(sys.argv[1], sys.argv[2]))))
