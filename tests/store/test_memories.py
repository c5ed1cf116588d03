"""Memories in the store: kept once, corrected, forgotten, and apart by label, so that none tells of another's."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.clock import SystemClock
from bot.core.errors import FullError, NotFoundError, SchemaError
from bot.core.ids import Ids
from bot.sessions.knowledge.memories import Memory, MemoryChanges, MemoryState
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, memory_keys
from bot.store.scripts.loader import load_scripts
from bot.store.servers.connection import Connection
from policy.labels import PUBLIC, Label, parse
from tests.fleets import Served
from tests.store.counting import Counting
from tests.store.world import KEY, SECRET, command, fresh, learned, row

pytestmark = pytest.mark.anyio

INTERNAL: Final = parse("INTERNAL")
ABOVE: Final = parse("RESTRICTED{acme}")
MANY: Final = 1_000


async def kept_of(store: RedisStore, who: str, label: Label) -> tuple[Memory, ...]:
    return (await store.memories.changes(who, label, 0, MANY)).changed


async def stored_of(store: RedisStore, who: str, label: Label | None = None) -> dict[bytes, bytes]:
    """Return all that is stored of what a principal's sessions learned, or of one label; answers for retries apart."""
    prefix = memory_keys(who, "").prefix
    names: list[bytes] = await command(store, "KEYS", f"{prefix}*")
    if label is not None:
        of_label = memory_keys(who, str(label))
        names = [name for name in names if name.decode() in {of_label.memories, of_label.changed}]
    return {name: await command(store, "DUMP", name) for name in sorted(names) if b":op:" not in name}


async def rows_of(store: RedisStore, what: str) -> int:
    found = await store.audit.records(AUDIT, limit=100_000)
    return sum(one.body == {"what": what} for one in found)


async def test_a_memory_comes_back_as_it_was_learned(store: RedisStore) -> None:
    who = fresh()
    whole = replace(
        learned(who, SECRET, "tee \ud800 um vier"),
        domain="office",
        by_agent=True,
        sid="s1",
        authors=("bea", "cy"),
        corrects="mem_of_another_label",
    )
    assert await store.memories.learn(whole, 5, ()) == whole
    plain = Memory(fresh(), who, SECRET, "", 0, "")
    assert await store.memories.learn(plain, 5, ()) == plain
    assert await kept_of(store, who, SECRET) == (whole, plain)
    assert (await store.memories.page(who, SECRET, 0, 5)).changed == (plain, whole)
    assert await store.memories.memories(who, {SECRET: (plain.id, "none", whole.id), PUBLIC: (whole.id,)}) == (
        plain,
        whole,
    )


async def test_there_is_nothing_of_a_principal_who_learned_nothing(store: RedisStore) -> None:
    who = fresh()
    await store.memories.learn(made := learned(), 5, ())
    assert await store.memories.versions(who) == {}
    assert await store.memories.changes(who, PUBLIC, 7, 5) == MemoryChanges(7, ())
    assert await store.memories.page(who, PUBLIC, 7, 5) == MemoryChanges(7, ())
    assert await store.memories.memories(who, {PUBLIC: (made.id,)}) == ()
    assert await store.memories.memories(who, {PUBLIC: ()}) == ()
    assert not await store.memories.forget(replace(made, principal=who), ())
    assert await stored_of(store, who) == {}


async def test_a_memory_is_learned_once_for_its_id(store: RedisStore) -> None:
    first = learned(fresh())
    await store.memories.learn(first, 1, ())
    before = await stored_of(store, first.principal)
    for _ in range(2):
        assert await store.memories.learn(replace(first, text="other words", learned_at=9), 1, ()) == first
        assert await stored_of(store, first.principal) == before
        # However long ago that was.
        await command(store, "DEL", memory_keys(first.principal, "").op(f"learn/{first.id}"))
    # What became of it since is told, and it is not learned anew.
    await store.memories.forget(first, ())
    again = await store.memories.learn(first, 1, ())
    assert (again.state, again.text) == (MemoryState.FORGOTTEN, "")


async def test_a_memory_that_is_learned_again_at_another_label_is_the_first(store: RedisStore) -> None:
    """A call that is made again after a crash may find its session higher than before."""
    first = learned(fresh())
    await store.memories.learn(first, 5, ())
    assert await store.memories.learn(replace(first, label=SECRET), 5, ()) == first
    assert await kept_of(store, first.principal, SECRET) == ()
    assert list(await store.memories.versions(first.principal)) == [PUBLIC]


async def test_as_many_memories_are_kept_of_a_label_as_may(store: RedisStore) -> None:
    who, most = fresh(), 2
    first, second, elsewhere = learned(who), learned(who), (INTERNAL, parse("PUBLIC{hr}"), parse("PUBLIC~"))
    for one in (first, second, *(learned(who, label) for label in elsewhere), learned(fresh())):
        await store.memories.learn(one, most, ())
    before = await stored_of(store, who)
    for words in (learned(who), replace(learned(who), corrects=first.id)):
        with pytest.raises(FullError):
            await store.memories.learn(words, most, ())
    assert await stored_of(store, who) == before
    # What is forgotten gives its place back, and what it corrected with it.
    await store.memories.forget(second, ())
    newer = replace(learned(who), corrects=first.id)
    assert await store.memories.learn(newer, most, ()) == newer
    with pytest.raises(FullError):
        await store.memories.learn(learned(who), most, ())
    await store.memories.forget(newer, ())
    for _ in range(most):
        await store.memories.learn(learned(who), most, ())
    with pytest.raises(FullError):
        await store.memories.learn(learned(who), most, ())


async def test_a_corrected_memory_of_the_same_label_counts_no_more(store: RedisStore) -> None:
    old = learned(fresh(), SECRET)
    newer = replace(learned(old.principal, SECRET, "tea is at five"), corrects=old.id, learned_at=8)
    await store.memories.learn(old, 5, ())
    await store.memories.learn(newer, 5, ())
    corrected = replace(old, state=MemoryState.CORRECTED, corrected_by=newer.id, ended_at=8)
    assert await kept_of(store, old.principal, SECRET) == (corrected, newer)
    assert await store.memories.learn(newer, 5, ()) == newer
    before = await stored_of(store, old.principal)
    for gone in (old, newer):
        if gone is newer:
            await store.memories.forget(newer, ())
            before = await stored_of(store, old.principal)
        with pytest.raises(NotFoundError):
            await store.memories.learn(replace(learned(old.principal, SECRET), corrects=gone.id), 5, ())
        assert await stored_of(store, old.principal) == before


@pytest.mark.parametrize("above", [ABOVE, parse("PUBLIC~")])
async def test_what_is_corrected_from_another_label_stays_as_it_is(store: RedisStore, above: Label) -> None:
    old = learned(fresh())
    await store.memories.learn(old, 5, ())
    before, versions = await stored_of(store, old.principal, PUBLIC), await store.memories.versions(old.principal)
    newer = replace(learned(old.principal, above), corrects=old.id)
    assert await store.memories.learn(newer, 5, ()) == newer
    assert await store.memories.forget(newer, ())
    assert await stored_of(store, old.principal, PUBLIC) == before
    assert (await store.memories.versions(old.principal))[PUBLIC] == versions[PUBLIC]
    assert await kept_of(store, old.principal, PUBLIC) == (old,)


async def test_two_corrections_at_once_are_one(store: RedisStore, other: RedisStore) -> None:
    old = learned(fresh())
    await store.memories.learn(old, 2, ())
    made = [replace(learned(old.principal), corrects=old.id) for _ in range(6)]
    ways = [one.memories.learn(memory, 9, ()) for one, memory in zip((store, other) * 3, made, strict=True)]
    answers = await asyncio.gather(*ways, return_exceptions=True)
    assert [type(one) for one in answers].count(NotFoundError) == 5
    (kept,) = [one for one in await kept_of(store, old.principal, PUBLIC) if one.state is MemoryState.KEPT]
    assert kept in answers


async def test_a_forgotten_memory_leaves_no_word_anywhere(store: RedisStore) -> None:
    who = fresh()
    chain = [replace(learned(who, SECRET, f"xyzzy {n}"), domain="xyzzy", asker="ann", sid="s1") for n in range(3)]
    beside = learned(who, SECRET)
    lower = learned(who, INTERNAL, "lower words")
    await store.memories.learn(lower, 9, ())
    made = [
        replace(one, corrects=before) for one, before in zip(chain, (lower.id, *(c.id for c in chain)), strict=False)
    ]
    for one in (*made, beside):
        await store.memories.learn(one, 9, ())
    before = (await store.memories.versions(who))[SECRET]
    assert await store.memories.forget(made[-1], ())
    left = {one.id: one for one in await kept_of(store, who, SECRET)}
    assert left.pop(beside.id) == beside
    for place, one in enumerate(made):
        found = left[one.id]
        newer = made[place + 1].id if place < len(made) - 1 else ""
        assert found.ended_at > 0
        tombstone = replace(one, text="", domain="", state=MemoryState.FORGOTTEN, corrected_by=newer)
        assert found == replace(tombstone, ended_at=found.ended_at)
    # Indexes hear of each.
    assert {one.id for one in (await store.memories.changes(who, SECRET, before, 9)).changed} == left.keys()
    # Neither in a record, nor in an answer that is kept for retries. What is not its label's is not its to erase.
    for name in await command(store, "KEYS", f"{memory_keys(who, '').prefix}*"):
        assert b"xyzzy" not in (await command(store, "DUMP", name))
    assert await kept_of(store, who, INTERNAL) == (lower,)
    again = await stored_of(store, who)
    assert not await store.memories.forget(made[-1], ())
    assert await stored_of(store, who) == again


async def test_what_was_corrected_is_forgotten_without_what_took_its_place(store: RedisStore) -> None:
    old = learned(fresh())
    newer = replace(learned(old.principal, text="tea is at five"), corrects=old.id)
    await store.memories.learn(old, 2, ())
    await store.memories.learn(newer, 2, ())
    assert not await store.memories.forget(old, ())
    states = {one.id: (one.state, one.text) for one in await kept_of(store, old.principal, PUBLIC)}
    assert states == {old.id: (MemoryState.FORGOTTEN, ""), newer.id: (MemoryState.KEPT, newer.text)}
    with pytest.raises(FullError):
        await store.memories.learn(learned(old.principal), 1, ())
    assert await store.memories.forget(newer, ())
    await store.memories.learn(learned(old.principal), 1, ())


async def test_memories_that_correct_one_another_are_forgotten_once(store: RedisStore) -> None:
    """None can be made so, unless an id is named before there is a memory of it."""
    one, two = learned(fresh()), learned()
    one, two = replace(one, corrects=two.id), replace(two, principal=one.principal, corrects=one.id)
    await store.memories.learn(one, 2, ())
    await store.memories.learn(two, 2, ())
    assert await store.memories.forget(two, ())
    assert {m.state for m in await kept_of(store, one.principal, PUBLIC)} == {MemoryState.FORGOTTEN}
    await store.memories.learn(learned(one.principal), 1, ())


async def test_what_is_learned_at_one_label_changes_nothing_of_another(store: RedisStore) -> None:
    """Neither what is stored of that, nor its version, nor who may read it."""
    low = learned(fresh())
    await store.memories.learn(low, 1, ())
    before = await stored_of(store, low.principal, PUBLIC)
    version = (await store.memories.versions(low.principal))[PUBLIC]
    for label in (INTERNAL, SECRET, ABOVE):
        made = [learned(low.principal, label) for _ in range(3)]
        for one in made:
            await store.memories.learn(one, 5, ())
        await store.memories.forget(made[0], ())
        await store.memories.count_use(low.principal, label, [low.id], fresh())
    assert await stored_of(store, low.principal, PUBLIC) == before
    versions = await store.memories.versions(low.principal)
    assert (versions[PUBLIC], versions.keys()) == (version, {PUBLIC, INTERNAL, SECRET, ABOVE})
    assert await store.memories.uses(low.principal, [PUBLIC], [low.id]) == {}


@pytest.mark.parametrize("size", [1, 2, 7, 8])
async def test_changes_come_in_pages(store: RedisStore, size: int) -> None:
    who = fresh()
    made = [learned(who) for _ in range(7)]
    for one in made:
        await store.memories.learn(one, 9, ())
    forward, backward, at, more = list[Memory](), list[Memory](), 0, True
    while more:
        page = await store.memories.changes(who, PUBLIC, at, size)
        forward, at, more = [*forward, *page.changed], page.version, page.more
    assert at == (await store.memories.versions(who))[PUBLIC]
    assert await store.memories.changes(who, PUBLIC, at, size) == MemoryChanges(at, ())
    at, more = 0, True
    while more:
        page = await store.memories.page(who, PUBLIC, at, size)
        backward, at, more = [*backward, *page.changed], page.version, page.more
    assert forward == made
    assert backward == made[::-1]
    # What changes again is behind all others.
    await store.memories.forget(made[3], ())
    assert [one.id for one in await kept_of(store, who, PUBLIC)] == [m.id for m in (*made[:3], *made[4:], made[3])]


async def test_no_version_comes_twice_after_changes_were_lost(store: RedisStore) -> None:
    """A server that took over may know nothing of the last ones, which indexes have."""
    who = fresh()
    await store.memories.learn(learned(who), 9, ())
    keys = memory_keys(who, str(PUBLIC))
    before = (await store.memories.versions(who))[PUBLIC]
    lost = [learned(who) for _ in range(3)]
    for one in lost:
        await store.memories.learn(one, 9, ())
    seen = (await store.memories.versions(who))[PUBLIC]
    await command(store, "HSET", keys.versions, "PUBLIC", before)
    for one in lost:
        await command(store, "ZREM", keys.changed, one.id)
        await command(store, "HDEL", keys.memories, one.id)
    await asyncio.sleep(0.01)
    await store.memories.learn(new := learned(who), 9, ())
    assert (await store.memories.changes(who, PUBLIC, seen, 9)).changed == (new,)
    # Nor where the clock went back.
    await command(store, "HSET", keys.versions, "PUBLIC", 2**50)
    await store.memories.learn(learned(who), 9, ())
    assert await store.memories.versions(who) == {PUBLIC: 2**50 + 1}
    assert (await store.memories.page(who, PUBLIC, 0, 1)).version == 2**50 + 1


async def test_uses_are_counted_by_the_label_of_who_recalled(store: RedisStore) -> None:
    who, one, two, op = fresh(), fresh(), fresh(), fresh()
    for _ in range(2):
        await store.memories.count_use(who, PUBLIC, [one, two, one], op)
    await store.memories.count_use(who, PUBLIC, [one], fresh())
    await store.memories.count_use(who, ABOVE, [one], fresh())
    await store.memories.count_use(who, ABOVE, [], fresh())
    assert await store.memories.versions(who) == {PUBLIC: 0, ABOVE: 0}
    ids = (one, two, one, "none")
    assert await store.memories.uses(who, [PUBLIC], ids) == {one: 2, two: 1}
    assert await store.memories.uses(who, [PUBLIC, ABOVE, PUBLIC, SECRET], ids) == {one: 3, two: 1}
    assert await store.memories.uses(who, [ABOVE], ids) == {one: 1}
    for readers, names in ((SECRET,), ids), ((), ids), ((PUBLIC,), ()):
        assert await store.memories.uses(who, readers, names) == {}
    assert await store.memories.uses(fresh(), [PUBLIC], ids) == {}


async def test_the_audit_tells_of_a_change_before_it_and_once(store: RedisStore) -> None:
    one, what = learned(fresh()), fresh()
    tell = (row(what),)
    await command(store, "HSET", memory_keys(one.principal, "PUBLIC").memories, one.id, b"\xc1junk")
    with pytest.raises(SchemaError):
        await store.memories.learn(one, 1, tell)
    assert await rows_of(store, what) == 1
    await command(store, "HDEL", memory_keys(one.principal, "PUBLIC").memories, one.id)
    await store.memories.learn(one, 1, tell)
    await store.memories.learn(one, 1, tell)
    assert await rows_of(store, what) == 1
    for _ in range(2):
        await store.memories.forget(one, tell)
    assert await rows_of(store, what) == 2


async def test_a_memory_that_cannot_be_read_ends_a_change_before_it_wrote(store: RedisStore) -> None:
    old = learned(fresh())
    middle = replace(learned(old.principal), corrects=old.id)
    newer = replace(learned(old.principal), corrects=middle.id)
    await store.memories.learn(old, 5, ())
    await store.memories.learn(middle, 5, ())
    await command(store, "HSET", memory_keys(old.principal, "PUBLIC").memories, old.id, b"\xc1junk")
    before = await stored_of(store, old.principal)
    for change in (
        store.memories.forget(middle, ()),
        store.memories.learn(replace(newer, corrects=old.id), 5, ()),
        store.memories.learn(old, 5, ()),
    ):
        with pytest.raises(SchemaError):
            await change
    assert await stored_of(store, old.principal) == before
    with pytest.raises(SchemaError):
        await kept_of(store, old.principal, PUBLIC)


async def test_round_trips(store: RedisStore) -> None:
    counting = Counting(store._shared.connection._servers)
    connection = Connection(counting, await asyncio.to_thread(load_scripts), name="p-counted")
    counted = RedisStore(connection, options=StoreOptions(), audit_key=KEY, clock=SystemClock(), ids=Ids()).memories
    who = fresh()

    async def trips_of(one: Memory) -> dict[str, int]:
        await store.memories.learn(one, 100, ())
        of_both = {PUBLIC: (one.id,), SECRET: (one.id,)}
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "learn": lambda: counted.learn(learned(who), 100, (row(),)),
            "versions": lambda: counted.versions(who),
            "memories": lambda: counted.memories(who, of_both),
            "uses": lambda: counted.uses(who, [PUBLIC, SECRET], [one.id]),
            "count": lambda: counted.count_use(who, PUBLIC, [one.id], fresh()),
            "changes": lambda: counted.changes(who, PUBLIC, 0, 10),
            "forget": lambda: counted.forget(one, (row(),)),
        }
        trips = dict[str, int]()
        for name, step in steps.items():
            counting.trips = 0
            await step()
            trips[name] = counting.trips
        return trips

    # At the second the scripts are there, and the head of the chain is known.
    await trips_of(learned(who))
    expected = {"learn": 2, "versions": 1, "memories": 1, "uses": 1, "count": 1, "changes": 2, "forget": 2}
    assert await trips_of(learned(who)) == expected


# What an index knows ------------------------------------------------------------------------------------

LABELS: Final = (PUBLIC, SECRET)


@dataclass
class _Index:
    """What a process knows of a label by its changes alone."""

    known: dict[str, Memory] = field(default_factory=dict[str, Memory])
    version: int = 0

    async def sync(self, store: RedisStore, who: str, label: Label) -> None:
        more = True
        while more:
            page = await store.memories.changes(who, label, self.version, 2)
            self.known |= {one.id: one for one in page.changed}
            self.version, more = page.version, page.more


STEP = st.tuples(st.sampled_from(["learn", "correct", "forget", "sync"]), st.sampled_from(LABELS), st.integers(0, 9))


@pytest.fixture(scope="module")
def runner(server: Served) -> Iterator[tuple[asyncio.Runner, RedisStore]]:
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())


async def _drive(store: RedisStore, steps: list[tuple[str, Label, int]]) -> None:
    who, most = fresh(), 4
    kept: dict[Label, list[Memory]] = {label: [] for label in LABELS}
    texts: dict[Label, dict[str, str]] = {label: {} for label in LABELS}
    indexes = {label: _Index() for label in LABELS}
    for number, (what, label, pick) in enumerate(steps):
        here = kept[label]
        chosen = here[pick % len(here)] if here else None
        made = learned(who, label, f"text {number}")
        full = sum(map(bool, texts[label].values())) >= most
        if what == "learn" and not full:
            here.append(await store.memories.learn(made, most, ()))
            texts[label][made.id] = made.text
        elif full and (what == "learn" or (what == "correct" and chosen is not None)):
            with pytest.raises(FullError):
                await store.memories.learn(made, most, ())
        elif what == "correct" and chosen is not None:
            here.remove(chosen)
            here.append(await store.memories.learn(replace(made, corrects=chosen.id), most, ()))
            texts[label][made.id] = made.text
        elif what == "forget" and chosen is not None:
            here.remove(chosen)
            assert await store.memories.forget(chosen, ())
            gone = chosen.id
            while gone:
                texts[label][gone] = ""
                (one,) = await store.memories.memories(who, {label: (gone,)})
                gone = one.corrects
        elif what == "sync":
            await indexes[label].sync(store, who, label)
    for label, index in indexes.items():
        await index.sync(store, who, label)
        assert {one.id for one in index.known.values() if one.state is MemoryState.KEPT} == {m.id for m in kept[label]}
        assert {one.id: one.text for one in index.known.values()} == texts[label]
        every = await store.memories.memories(who, {label: tuple(index.known)})
        assert {one.id: one for one in every} == index.known


@given(st.lists(STEP, max_size=25))
@settings(max_examples=40)
def test_what_follows_the_changes_knows_all(
    runner: tuple[asyncio.Runner, RedisStore], steps: list[tuple[str, Label, int]]
) -> None:
    """Whatever is learned, corrected and forgotten, and whenever an index looks, it ends as the store is."""
    loop, store = runner
    loop.run(_drive(store, steps))
