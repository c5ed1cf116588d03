"""Recall on a real store: what a reader may know of, in the order that it would have if there were nothing else."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.access.labelling import untrusted
from bot.core.errors import StoreGoneError
from bot.knowledge.index import EMPTY_WEIGHT
from bot.knowledge.recall import MOST_WEIGHT, KnowledgeSearch
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import Memory, MemoryChanges, MemoryState
from bot.sessions.ports.knowledge import MemoryStore
from bot.store.redis_store import RedisStore
from bot.store.schema import memory_keys
from policy.labels import PUBLIC, Label, parse
from tests.store.world import command, fresh

pytestmark = pytest.mark.anyio

LABELS: Final = tuple(
    map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL{acme}", "CONFIDENTIAL{hr}", "RESTRICTED"))
)
INTERNAL: Final = parse("INTERNAL")
SECRET: Final = parse("CONFIDENTIAL{acme}")
MANY: Final = 1_000


@dataclass
class Watched:
    """A store whose calls are noted; it can be made to tell old versions, to be late, or to fail."""

    behind: MemoryStore
    calls: list[str] = field(default_factory=list[str])
    old: Mapping[Label, int] | None = None
    old_once: bool = False
    late: asyncio.Event | None = None
    gone: bool = False

    async def called(self, what: str, times: int) -> None:
        """Wait until something was called as often."""
        async with asyncio.timeout(60):
            while self.calls.count(what) < times:  # noqa: ASYNC110 - what is called tells nobody
                await asyncio.sleep(0.001)

    async def learn(self, memory: Memory, most: int, audit: tuple[AuditRow, ...]) -> Memory:
        return await self.behind.learn(memory, most, audit)

    async def forget(self, memory: Memory, audit: tuple[AuditRow, ...]) -> bool:
        return await self.behind.forget(memory, audit)

    async def versions(self, principal: str) -> Mapping[Label, int]:
        self.calls.append("versions")
        told = await self.behind.versions(principal) if self.old is None else self.old
        if self.old_once:
            self.old = None
        return told

    async def changes(self, principal: str, label: Label, since: int, most: int) -> MemoryChanges:
        self.calls.append(f"changes {label}")
        if self.late is not None:
            await self.late.wait()
        return await self.behind.changes(principal, label, since, most)

    async def memories(self, principal: str, ids: Mapping[Label, Collection[str]]) -> tuple[Memory, ...]:
        self.calls.append("memories")
        if self.gone:
            raise StoreGoneError("the store does not answer")
        return await self.behind.memories(principal, ids)

    async def page(self, principal: str, label: Label, before: int, most: int) -> MemoryChanges:
        return await self.behind.page(principal, label, before, most)

    async def count_use(self, principal: str, reader: Label, ids: Collection[str], op: str) -> None:
        await self.behind.count_use(principal, reader, ids, op)

    async def uses(self, principal: str, readers: Collection[Label], ids: Collection[str]) -> Mapping[str, int]:
        self.calls.append("uses")
        if self.gone:
            raise StoreGoneError("the store does not answer")
        return await self.behind.uses(principal, readers, ids)


@asynccontextmanager
async def searching(memories: MemoryStore, most: int = MOST_WEIGHT) -> AsyncGenerator[KnowledgeSearch]:
    search = KnowledgeSearch(memories, most=most)
    try:
        yield search
    finally:
        await search.close()
        assert search.weight == 0


async def learn(  # noqa: PLR0913 - what may differ of it
    store: RedisStore, who: str, text: str, label: Label = PUBLIC, *, at: int = 5, domain: str = "", corrects: str = ""
) -> Memory:
    one = Memory(f"mem_{fresh()}", who, label, text, at, "ann", domain, corrects=corrects)
    return await store.memories.learn(one, MANY, ())


async def texts(search: KnowledgeSearch, who: str, query: str, reader: Label = PUBLIC, limit: int = 10) -> list[str]:
    return [one.text for one in await search.recall(who, reader, query, limit=limit)]


async def test_what_fits_is_recalled_as_it_is_kept(store: RedisStore) -> None:
    who = fresh()
    async with searching(store.memories) as search:
        assert await search.recall(who, PUBLIC, "tea", limit=5) == ()
        one = await learn(store, who, "tea is at four", domain="office")
        await learn(store, who, "coffee is at ten")
        assert await search.recall(who, PUBLIC, "When do we have tea?", limit=5) == (one,)
        assert await search.recall(who, PUBLIC, "When do we have tea?", limit=5, domain="home") == ()
        assert await search.recall(who, PUBLIC, "When do we have tea?", limit=5, domain="office") == (one,)
        assert await search.recall(fresh(), PUBLIC, "When do we have tea?", limit=5) == ()


async def test_it_is_found_where_it_adds_nothing_to_the_reader(store: RedisStore) -> None:
    who = fresh()
    for label in LABELS:
        await learn(store, who, f"tea {label}", label)
    async with searching(store.memories) as search:
        for reader in LABELS:
            seen = {f"tea {label}" for label in LABELS if label.within(reader)}
            assert set(await texts(search, who, "tea", reader)) == seen


async def test_round_trips(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    for label in LABELS:
        await learn(store, who, f"tea {label}", label)
    async with searching(watched) as search:
        await texts(search, who, "tea", INTERNAL)
        # What is hidden is not even followed.
        assert sorted(watched.calls[:-2]) == ["changes INTERNAL", "changes PUBLIC", "versions"]
        watched.calls.clear()
        assert len(await texts(search, who, "tea", INTERNAL)) == 2
        assert sorted(watched.calls) == ["memories", "uses", "versions"]
        watched.calls.clear()
        assert await texts(search, who, "coffee", INTERNAL) == []
        assert watched.calls == ["versions"]
        watched.calls.clear()
        for query, limit in ("?!", 5), ("", 5), ("tea", 0), ("tea", -1):
            assert await search.recall(who, INTERNAL, query, limit=limit) == ()
        assert watched.calls == []


async def test_changes_come_in_pages(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    for number in range(1_001):
        await store.memories.learn(Memory(f"mem_{fresh()}", who, PUBLIC, f"tea {number}", number, "ann"), 2_000, ())
    async with searching(watched) as search:
        assert len(await texts(search, who, "tea", limit=2_000)) == 1_001
        assert watched.calls.count("changes PUBLIC") == 3


async def test_what_was_forgotten_a_moment_ago_is_not_recalled(store: RedisStore) -> None:
    """Not even where nobody told the index."""
    who, watched = fresh(), Watched(store.memories)
    tea, more = await learn(store, who, "tea is at four"), await learn(store, who, "tea is at five")
    async with searching(watched) as search:
        assert len(await texts(search, who, "tea")) == 2
        watched.old = await store.memories.versions(who)
        await store.memories.forget(tea, ())
        assert await texts(search, who, "tea") == [more.text]
        assert len(watched.calls) == 7
        watched.old = None
        assert await texts(search, who, "four") == []


async def test_what_was_corrected_is_not_recalled_by_who_sees_what_corrects_it(store: RedisStore) -> None:
    who = fresh()
    old = await learn(store, who, "tea is at four")
    above = await learn(store, who, "no, at five", SECRET, corrects=old.id)
    async with searching(store.memories) as search:
        assert await texts(search, who, "tea four five", PUBLIC) == [old.text]
        assert await texts(search, who, "tea four five", INTERNAL) == [old.text]
        assert await texts(search, who, "tea four five", SECRET) == [above.text]
        # What corrects the correction hides the first as well.
        last = await learn(store, who, "or rather at six", SECRET, corrects=above.id)
        assert await texts(search, who, "tea four five six", SECRET) == [last.text]
        assert await texts(search, who, "tea four", SECRET) == []
        await store.memories.forget(last, ())
        assert await texts(search, who, "tea four five six", SECRET) == [old.text]


async def test_what_is_hidden_by_corrections_takes_no_place_of_others(store: RedisStore) -> None:
    who = fresh()
    for number in range(30):
        old = await learn(store, who, f"tea tea {number}")
        await learn(store, who, f"coffee {number}", SECRET, corrects=old.id)
    await learn(store, who, "a word about tea")
    async with searching(store.memories) as search:
        assert await texts(search, who, "tea", SECRET) == ["a word about tea"]
        assert len(await texts(search, who, "tea", PUBLIC)) == 10


async def test_recency_and_use_decide_between_equals(store: RedisStore) -> None:
    who = fresh()
    first = await learn(store, who, "tea is at four", at=5)
    other = await learn(store, who, "tea is at five", INTERNAL, at=5)
    last = await learn(store, who, "tea is at six", LABELS[1], at=6)
    async with searching(store.memories) as search:
        assert (await search.recall(who, untrusted(INTERNAL), "tea", limit=5))[0] == last
        # What a session above recalled counts only for those who may know of that session.
        for _ in range(3):
            await store.memories.count_use(who, SECRET, [other.id, last.id], fresh())
        await store.memories.count_use(who, PUBLIC, [first.id], fresh())
        lower = await search.recall(who, untrusted(INTERNAL), "tea", limit=5)
        assert lower.index(first) < lower.index(other)
        higher = await search.recall(who, untrusted(SECRET), "tea", limit=5)
        assert higher.index(other) < higher.index(first)


async def test_what_fits_an_index_best_does_not_go_before_what_fits_better(store: RedisStore) -> None:
    who = fresh()
    for number in range(12):
        await learn(store, who, f"the password of room {number} is in the safe", at=number)
    best = await learn(store, who, "the password of the wifi is written on the wall", at=1)
    await learn(store, who, "the tea is cold", INTERNAL, at=99)
    await learn(store, who, "the weather is fine", LABELS[1], at=98)
    async with searching(store.memories) as search:
        assert (await texts(search, who, "what is the password of the wifi", INTERNAL))[0] == best.text


async def test_recalls_at_once_build_an_index_once(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories, late=asyncio.Event())
    await learn(store, who, "tea is at four")
    async with searching(watched) as search, asyncio.TaskGroup() as tasks:
        recalls = [tasks.create_task(texts(search, who, "tea")) for _ in range(8)]
        given_up = tasks.create_task(texts(search, who, "tea"))
        await watched.called("versions", 9)
        # The first builds; that another does not wait any longer changes nothing.
        given_up.cancel()
        assert watched.late is not None
        watched.late.set()
        assert [await one for one in recalls] == [["tea is at four"]] * 8
        assert watched.calls.count("changes PUBLIC") == 1


async def test_another_goes_on_where_the_one_that_builds_gives_up(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories, late=asyncio.Event())
    await learn(store, who, "tea is at four")
    async with searching(watched) as search, asyncio.TaskGroup() as tasks:
        builds = tasks.create_task(texts(search, who, "tea"))
        await watched.called("changes PUBLIC", 1)
        waits = tasks.create_task(texts(search, who, "tea"))
        await asyncio.sleep(0.01)
        builds.cancel()
        assert watched.late is not None
        watched.late.set()
        assert await waits == ["tea is at four"]


async def test_indexes_make_room_for_one_another(store: RedisStore) -> None:
    people, watched = [fresh() for _ in range(5)], Watched(store.memories)
    for who in people:
        await learn(store, who, "tea is at four")
        await learn(store, who, "tea is at five", INTERNAL)
    most = 4 * EMPTY_WEIGHT + 1_000
    async with searching(watched, most) as search:
        for who in (*people, *people):
            assert len(await texts(search, who, "tea", INTERNAL)) == 2
            assert 0 < search.weight <= most
        # Those that were asked last are still there.
        watched.calls.clear()
        for who in people[-2:]:
            await texts(search, who, "tea", INTERNAL)
        assert not [one for one in watched.calls if one.startswith("changes")]
        await texts(search, people[0], "tea", INTERNAL)
        assert len([one for one in watched.calls if one.startswith("changes")]) == 2


async def test_one_index_may_be_larger_than_all_should_be(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    await learn(store, who, "tea is at four")
    async with searching(watched, most=1) as search, asyncio.TaskGroup() as tasks:
        assert await texts(search, who, "tea") == await texts(search, who, "tea") == ["tea is at four"]
        assert watched.calls.count("changes PUBLIC") == 1
        # One that is in use stays until it is not.
        await learn(store, who, "tea is at five")
        watched.late = asyncio.Event()
        waits = tasks.create_task(texts(search, who, "tea"))
        await watched.called("changes PUBLIC", 2)
        late, watched.late = watched.late, None
        other = fresh()
        await learn(store, other, "tea is at ten")
        assert await texts(search, other, "tea") == ["tea is at ten"]
        again = tasks.create_task(texts(search, who, "tea"))
        await watched.called("versions", 5)
        late.set()
        assert len(await waits) == len(await again) == 2
        assert watched.calls.count("changes PUBLIC") == 3


async def test_an_index_begins_anew_where_the_store_went_back(store: RedisStore) -> None:
    """What a backup brings back is found, and what it does not know is not."""
    who = fresh()
    keys = memory_keys(who, "PUBLIC")
    old = await learn(store, who, "tea is at four")
    before = [(name, await command(store, "DUMP", name)) for name in (keys.memories, keys.changed, keys.versions)]
    async with searching(store.memories) as search:
        await store.memories.forget(old, ())
        await learn(store, who, "tea is at five")
        assert await texts(search, who, "tea") == ["tea is at five"]
        for name, dumped in before:
            await command(store, "RESTORE", name, 0, dumped, "REPLACE")
        assert await texts(search, who, "tea") == ["tea is at four"]


async def test_an_index_is_left_that_found_what_the_store_lost(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    keys = memory_keys(who, "PUBLIC")
    lost = await learn(store, who, "tea is at four")
    await learn(store, who, "tea is at five")
    async with searching(watched) as search:
        assert len(await texts(search, who, "tea")) == 2
        await command(store, "HDEL", keys.memories, lost.id)
        await command(store, "ZREM", keys.changed, lost.id)
        assert await texts(search, who, "tea") == ["tea is at five"]
        watched.calls.clear()
        for _ in range(2):
            assert await texts(search, who, "tea four") == ["tea is at five"]
        assert watched.calls.count("changes PUBLIC") == 1


async def test_an_index_is_left_by_the_last_recall_that_uses_it(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    lost = await learn(store, who, "tea is at four")
    await learn(store, who, "tea is at five")
    async with searching(watched) as search, asyncio.TaskGroup() as tasks:
        assert len(await texts(search, who, "tea")) == 2
        await learn(store, who, "tea is at six", INTERNAL)
        watched.late = asyncio.Event()
        waits = [tasks.create_task(texts(search, who, "tea", INTERNAL)) for _ in range(2)]
        await watched.called("versions", 3)
        await watched.called("changes INTERNAL", 1)
        await command(store, "HDEL", memory_keys(who, "PUBLIC").memories, lost.id)
        assert await texts(search, who, "tea") == ["tea is at five"]
        watched.late.set()
        for one in waits:
            assert set(await one) == {"tea is at five", "tea is at six"}
        assert await texts(search, who, "tea") == ["tea is at five"]
        assert watched.calls.count("changes PUBLIC") == 2


async def test_a_recall_that_read_an_old_version_changes_nothing(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories)
    await learn(store, who, "tea is at four")
    old = await store.memories.versions(who)
    await learn(store, who, "tea is at five")
    async with searching(watched) as search:
        assert len(await texts(search, who, "tea")) == 2
        watched.old = old
        watched.old_once = True
        assert len(await texts(search, who, "tea")) == 2
        assert watched.calls.count("changes PUBLIC") == 1


async def test_a_store_that_does_not_answer_is_told_as_such(store: RedisStore) -> None:
    who, watched = fresh(), Watched(store.memories, gone=True)
    await learn(store, who, "tea is at four")
    async with searching(watched) as search:
        with pytest.raises(StoreGoneError):
            await texts(search, who, "tea")
        watched.gone = False
        assert await texts(search, who, "tea") == ["tea is at four"]


# What is hidden changes nothing -------------------------------------------------------------------------

WORDS: Final = ("tea", "coffee", "at", "four", "five", "room")
QUERY: Final = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


@dataclass(frozen=True)
class Step:
    """Something that is done: learn, correct or forget a memory, or count that it was recalled."""

    what: str
    label: Label
    text: str
    pick: int
    at: int
    domain: str


STEPS: Final = st.lists(
    st.builds(
        Step,
        st.sampled_from(["learn", "learn", "learn", "correct", "forget", "use"]),
        st.sampled_from(LABELS),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        st.integers(0, 9),
        st.integers(1, 4),
        st.sampled_from(["", "office", "home"]),
    ),
    max_size=30,
)
READER: Final = st.sampled_from(LABELS)


@dataclass
class World:
    """A principal's memories, and what a slow reading knows of them. The same steps give the same ids."""

    store: RedisStore
    who: str = field(default_factory=fresh)
    known: dict[str, Memory] = field(default_factory=dict[str, Memory])

    async def do(self, number: int, step: Step, reader: Label | None = None) -> None:
        """Do a step, unless it is hidden from a reader."""
        if reader is not None and not step.label.within(reader):
            return
        kept = [one for one in self.known.values() if one.state is MemoryState.KEPT and one.label.within(step.label)]
        # The same ones are picked whatever else there is.
        chosen = kept[step.pick % len(kept)] if kept else None
        name = f"mem_{number:012x}"
        if step.what == "learn":
            await self._learn(Memory(name, self.who, step.label, step.text, step.at, "ann", step.domain))
        elif step.what == "correct" and chosen is not None:
            label = step.label.join(chosen.label)
            await self._learn(Memory(name, self.who, label, step.text, step.at, "ann", step.domain, corrects=chosen.id))
            if label == chosen.label:
                self.known[chosen.id] = replace(chosen, state=MemoryState.CORRECTED)
        elif step.what == "forget" and chosen is not None and step.label.within(chosen.label):
            await self.store.memories.forget(chosen, ())
            gone: Memory | None = chosen
            while gone is not None and gone.label == chosen.label:
                self.known[gone.id] = replace(gone, state=MemoryState.FORGOTTEN)
                gone = self.known.get(gone.corrects)
        elif step.what == "use" and chosen is not None:
            await self.store.memories.count_use(self.who, step.label, [chosen.id], f"{number}")

    async def _learn(self, memory: Memory) -> None:
        self.known[memory.id] = await self.store.memories.learn(memory, MANY, ())

    def visible(self, reader: Label, query: str, domain: str) -> set[str]:
        """Return the ids of what a reader is to find: by the definition, one memory after another."""
        seen = [one for one in self.known.values() if one.label.within(reader)]
        hidden = {one.corrects for one in seen if one.state is not MemoryState.FORGOTTEN}
        return {
            one.id
            for one in seen
            if one.state is MemoryState.KEPT
            and one.id not in hidden
            and set(query.split()) & set(one.text.split())
            and one.domain in {domain or one.domain, ""}
        }


async def _found(search: KnowledgeSearch, world: World, reader: Label, query: str, limit: int = MANY) -> list[str]:
    return [one.id for one in await search.recall(world.who, reader, query, limit=limit)]


@given(STEPS, READER, QUERY, st.integers(1, 6))
@settings(max_examples=60)
def test_what_is_hidden_changes_neither_what_is_found_nor_its_order(
    runner: tuple[asyncio.Runner, RedisStore], steps: list[Step], reader: Label, query: str, limit: int
) -> None:
    """Two runs, one with all that was done above the reader and one without, are one to the reader."""
    loop, store = runner

    async def both() -> None:
        whole, without = World(store), World(store)
        async with searching(store.memories) as search:
            for number, step in enumerate(steps):
                await whole.do(number, step)
                await without.do(number, step, reader)
                found = await _found(search, whole, reader, query, limit)
                assert found == await _found(search, without, reader, query, limit)
        # Nor does it matter whether an index was there before, and who asked it.
        async with searching(store.memories) as search:
            for label in LABELS:
                await _found(search, whole, label, query, limit)
            last = await _found(search, whole, reader, query, limit)
            assert last == await _found(search, without, reader, query, limit)

    loop.run(both())


@given(READER, QUERY, st.integers(50, 300), st.integers(1, 8))
@settings(max_examples=10)
def test_any_number_of_hidden_memories_changes_nothing(
    runner: tuple[asyncio.Runner, RedisStore], reader: Label, query: str, hidden: int, limit: int
) -> None:
    loop, store = runner

    async def both() -> None:
        whole, without = World(store), World(store)
        for number, text in enumerate(("tea at four", "coffee at five", "tea room", "four coffee rooms", "tea tea")):
            step = Step("learn", PUBLIC, text, 0, 1 + number % 2, "")
            await whole.do(number, step)
            await without.do(number, step)
        above = [label for label in LABELS if not label.within(reader)]
        for number in range(hidden if above else 0):
            text = " ".join(WORDS[number % len(WORDS) :])
            await whole.do(100 + number, Step("learn", above[number % len(above)], text, 0, 5, ""))
        async with searching(store.memories) as search:
            found = await _found(search, whole, reader, query, limit)
            assert found == await _found(search, without, reader, query, limit)

    loop.run(both())


@given(STEPS, READER, QUERY, st.sampled_from(["", "office"]))
@settings(max_examples=60)
def test_what_is_found_is_what_a_slow_reading_finds(
    runner: tuple[asyncio.Runner, RedisStore], steps: list[Step], reader: Label, query: str, domain: str
) -> None:
    loop, store = runner

    async def one() -> None:
        world = World(store)
        async with searching(store.memories) as search:
            for number, step in enumerate(steps):
                await world.do(number, step)
                if number % 4 == 0:
                    await _found(search, world, reader, query)
            got = await search.recall(world.who, reader, query, limit=MANY, domain=domain)
        assert {memory.id for memory in got} == world.visible(reader, query, domain)
        assert all(memory == world.known[memory.id] for memory in got)

    loop.run(one())
