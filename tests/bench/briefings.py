"""`session start` with ten thousand memories of one label and a hundred skills in force, and patterns among a hundred.

Memories and skills are written into the store as records by a pipeline that is not measured. Each start is told ten
memories and five skills that fit three words, patterns and counts. Before it something was learned, which is not
measured: indexes are brought up to date, memories counted, and patterns looked for anew. The reference is a query to a
bare table of FTS5 with the same texts, and the exchanges with the store that no start could do without: versions,
records of what is told and looked at, and outcomes of the skills. Patterns are among a hundred memories of 25 words;
their reference is to find the words of the same texts, and how many each two of them share.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import combinations, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from bot.app.knowledge import Knowledge
from bot.config.knowledge import KnowledgeSettings
from bot.knowledge.briefing import BriefingReader
from bot.knowledge.keeper import Learner
from bot.knowledge.patterns import LOOKED_AT, patterns
from bot.sessions.knowledge.memories import Memory
from bot.sessions.knowledge.skills import Outcome, Skill, SkillDeed, SkillEvent, SkillState, SkillText, SkillVersion
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import memory_keys, skill_keys
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.bench.measure import Row, at_most, by_turns, by_turns_async, warm
from tests.bench.recalls import bare_table, fill, memory_id, texts_of, words_of

_MEMORIES: Final = 10_000
_SKILLS: Final = 100
_STEPS: Final = 5
_TOLD: Final = 10
_APPLIED: Final = 5
_QUERIES: Final = 50
_ROUNDS: Final = 40
_MOST_MS: Final = 15.0
_BARE_MS: Final = 2.0
_PATTERNS_MS: Final = 5.0
_BARE_PATTERNS_MS: Final = 3.0
"""What the references took on the machine that the goals are stated for."""
_WORD: Final = re.compile(r"\w+")

Timed = Callable[[], Awaitable[float]]


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        ours, bare = asyncio.run(_measured(Path(folder)))
    yield Row("session_start", ours * 1000, "ms", bare * 1000, at_most(_MOST_MS, machine=_BARE_MS))
    ours, bare = _patterns()
    yield Row("patterns_100", ours * 1000, "ms", bare * 1000, at_most(_PATTERNS_MS, machine=_BARE_PATTERNS_MS))


async def _measured(folder: Path) -> tuple[float, float]:
    """Return the median seconds of a start and of its reference."""
    supervisor = Supervisor(folder)
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    knowledge = Knowledge(store, KnowledgeSettings())
    chance = random.Random(1)  # noqa: S311 - texts, not secrets
    words = words_of(chance)
    texts = list(texts_of(chance, words, _MEMORIES))
    queries = [" ".join(chance.sample(words[100:2_000], 3)) for _ in range(_QUERIES)]
    try:
        # The library leaves its signatures untyped.
        with cast("Any", Redis).from_url(supervisor.url) as client:
            await asyncio.to_thread(fill, client, "some", texts)
        names = await _skills(store, texts)
        async with cast("Any", AsyncRedis).from_url(supervisor.url, protocol=2) as client:
            with closing(await asyncio.to_thread(bare_table, texts)) as table:
                work = _start(knowledge, queries), _bare(table, client, queries, names)
                await warm(*work, rounds=5)
                ours, bare = await by_turns_async(*work, rounds=_ROUNDS)
                return ours, bare
    finally:
        await knowledge.search.close()
        await store.close()
        await supervisor.detach()


async def _skills(store: RedisStore, texts: list[str]) -> list[str]:
    """Keep skills in force, each with an outcome, and return their ids."""
    names = [f"skill_{number:012x}" for number in range(_SKILLS)]
    for number, name in enumerate(names):
        said = SkillText(f"Skill {number}", texts[number], "", tuple(texts[number : number + _STEPS]))
        version = SkillVersion(1, said, PUBLIC, 5, "ann", approved_by="ann", approved_at=6)
        skill = Skill(
            name, "some", PUBLIC, SkillState.ACTIVE, (version,), created_at=5, changed_at=5, pool=PUBLIC, current=1
        )
        await store.skills.create(skill, SkillEvent(5, "ann", SkillDeed.CREATED, 1), _SKILLS, ())
        told = Learner("some", "ann", PUBLIC, PUBLIC)
        await Knowledge(store, KnowledgeSettings()).skills.reflect(told, name, Outcome.SUCCESS, name)
    return names


def _start(knowledge: Knowledge, queries: list[str]) -> Timed:
    asked, reader = cycle(queries), BriefingReader("some", PUBLIC)
    learner = Learner("some", "ann", PUBLIC, PUBLIC)

    async def timed() -> float:
        query = next(asked)
        await knowledge.keeper.learn(learner, query, f"{query} {time.monotonic_ns()}")
        begin = time.perf_counter()
        told = await knowledge.briefings.start(reader, context=query, memory_limit=_TOLD, skill_limit=_APPLIED)
        taken = time.perf_counter() - begin
        if (len(told.memories), len(told.skills)) != (_TOLD, _APPLIED):
            raise RuntimeError("as many memories and skills as were asked for should be told")
        return taken

    return timed


def _bare(table: Any, client: Any, queries: list[str], skills: list[str]) -> Timed:  # noqa: ANN401 - the libraries' own
    asked, keys, own = cycle(queries), memory_keys("some", str(PUBLIC)), skill_keys("some", str(PUBLIC))
    looked_at = [memory_id(number) for number in range(LOOKED_AT)]
    outcomes = [f"{name}/{outcome.value}" for name in skills for outcome in Outcome]

    async def timed() -> float:
        match = " OR ".join(next(asked).split())
        begin = time.perf_counter()
        await client.hgetall(keys.versions)
        await client.hgetall(own.versions)
        found = table.execute("SELECT rowid FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT ?", (match, _TOLD))
        await client.hmget(keys.memories, [memory_id(number) for (number,) in found.fetchall()])
        await client.hmget(keys.memories, looked_at)
        await client.hmget(own.outcomes(str(PUBLIC)), outcomes)
        return time.perf_counter() - begin

    return timed


def _patterns() -> tuple[float, float]:
    """Return the median seconds of finding patterns, and of its reference."""
    chance = random.Random(1)  # noqa: S311 - texts, not secrets
    texts = list(texts_of(chance, words_of(chance), LOOKED_AT))
    memories = [Memory(memory_id(n), "some", PUBLIC, text, n, "ann") for n, text in enumerate(texts)]

    def bare() -> int:
        words = [frozenset(_WORD.findall(text.lower())) for text in texts]
        return sum(len(one & other) > 1 for one, other in combinations(words, 2))

    ours, reference = by_turns(lambda: patterns(memories), bare, rounds=_ROUNDS)
    return ours, reference
