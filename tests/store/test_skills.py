"""Skills in the store: kept once, changed one after another, and apart by label, so that none tells of another's."""

# pyright: reportPrivateUsage=false

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from bot.core.clock import SystemClock
from bot.core.errors import FullError, SchemaError
from bot.core.ids import Ids
from bot.sessions.knowledge.skills import (
    MOST_EVENTS,
    MOST_NOTES,
    Outcome,
    Reflection,
    Skill,
    SkillChanges,
    SkillDeed,
    SkillEvent,
    SkillState,
    SkillText,
    SkillVersion,
    SuccessRate,
)
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, encode, memory_keys, skill_keys
from bot.store.scripts.loader import load_scripts
from bot.store.servers.connection import Connection
from policy.labels import PUBLIC, Label, parse
from tests.store.counting import Counting
from tests.store.world import KEY, command, done, fresh, learned, row, skilled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

INTERNAL: Final = parse("INTERNAL")
SECRET: Final = parse("CONFIDENTIAL{acme}")
ABOVE: Final = parse("RESTRICTED{acme}")


async def kept_of(store: RedisStore, who: str, label: Label) -> tuple[Skill, ...]:
    return (await store.skills.changes(who, label, 0, 1_000)).changed


async def stored_of(store: RedisStore, who: str) -> dict[bytes, bytes]:
    """Return all that is stored of what a principal's sessions learned; answers for retries apart."""
    names: list[bytes] = await command(store, "KEYS", f"{memory_keys(who, '').prefix}*")
    return {name: await command(store, "DUMP", name) for name in sorted(names) if b":op:" not in name}


async def of_label(store: RedisStore, who: str, label: Label) -> dict[bytes, bytes]:
    """Return what is stored under the keys of the skills of a label."""
    keys = skill_keys(who, str(label))
    log = f"{keys.prefix}skill-log:{encode(str(label))}:"
    mine = (keys.skills, keys.changed, log, keys.outcomes(str(label)))
    return {name: one for name, one in (await stored_of(store, who)).items() if name.decode().startswith(mine)}


def whole(who: str) -> Skill:
    """Return a skill of which no part is blank."""
    text = SkillText("Tee \ud800", "Um vier.", "büro", ("Wasser kochen.", "Eingießen."))
    first = SkillVersion(
        number=3,
        text=text,
        label=parse("CONFIDENTIAL{acme}~"),
        made_at=5,
        asker="ann",
        by_agent=True,
        sid="s1",
        authors=("bea", "cy"),
        sources=("mem_1", "mem_2"),
        call="abc",
        approved_by="ann",
        approved_at=6,
    )
    second = replace(first, number=4, approved_by="", approved_at=0, rejected_by="bea", rejected_at=7)
    plain = SkillVersion(5, SkillText("", "", "", ("x",)), SECRET, 0, "")
    return Skill(
        id=f"skill_{fresh()}",
        principal=who,
        label=SECRET,
        state=SkillState.ACTIVE,
        versions=(first, second, plain),
        created_at=8,
        changed_at=9,
        pool=SECRET,
        current=3,
        derived_from="skill_0",
    )


async def test_a_skill_comes_back_as_it_was_kept(store: RedisStore) -> None:
    who = fresh()
    made, plain = whole(who), skilled(who, SECRET)
    assert await store.skills.create(made, done(), 5, ()) == made
    assert await store.skills.create(plain, done(), 5, ()) == plain
    assert await kept_of(store, who, SECRET) == (made, plain)
    found = await store.skills.skills(who, {SECRET: (plain.id, "none", made.id), PUBLIC: (made.id,), INTERNAL: ()})
    assert found == (plain, made)
    later = replace(plain, versions=(*plain.versions, replace(made.versions[0], number=2)), revision=2)
    assert await store.skills.change(later, done(SkillDeed.UPDATED, 2), ())
    assert await kept_of(store, who, SECRET) == (made, later)


async def test_there_is_nothing_of_a_principal_who_has_no_skill(store: RedisStore) -> None:
    who, made = fresh(), skilled()
    await store.skills.create(made, done(), 5, ())
    assert await store.skills.versions(who) == {}
    assert await store.skills.changes(who, PUBLIC, 7, 5) == SkillChanges(7, ())
    assert await store.skills.skills(who, {PUBLIC: (made.id,)}) == ()
    assert await store.skills.history(replace(made, principal=who)) == ()
    assert await store.skills.rates(who, (PUBLIC,), [made.id]) == {}
    assert await store.skills.notes(who, (PUBLIC,), made.id) == ()
    # A change of what is not there is none.
    assert not await store.skills.change(replace(made, principal=who, revision=2), done(), ())
    assert await stored_of(store, who) == {}


async def test_a_skill_is_created_once_for_its_id(store: RedisStore) -> None:
    first = skilled(fresh())
    await store.skills.create(first, done(), 1, ())
    before = await stored_of(store, first.principal)
    for _ in range(2):
        assert await store.skills.create(replace(first, created_at=9), done(), 1, ()) == first
        assert await stored_of(store, first.principal) == before
        # However long ago that was.
        await command(store, "DEL", skill_keys(first.principal, "").op(f"create/{first.id}"))
    later = replace(first, state=SkillState.REJECTED, revision=2)
    assert await store.skills.change(later, done(), ())
    assert await store.skills.create(first, done(), 1, ()) == later


async def test_a_skill_that_is_created_again_at_another_label_is_the_first(store: RedisStore) -> None:
    """A call that is made again after a crash may find its session higher than before."""
    first = skilled(fresh())
    await store.skills.create(first, done(), 5, ())
    assert await store.skills.create(replace(first, label=SECRET), done(), 5, ()) == first
    assert await kept_of(store, first.principal, SECRET) == ()
    assert list(await store.skills.versions(first.principal)) == [PUBLIC]


async def test_of_two_changes_one_comes_first(store: RedisStore) -> None:
    made = skilled(fresh())
    await store.skills.create(made, done(), 5, ())
    one = replace(made, state=SkillState.ACTIVE, current=1, revision=2)
    two = replace(made, state=SkillState.REJECTED, revision=2)
    got = await asyncio.gather(*(store.skills.change(change, done(), ()) for change in (one, two)))
    assert sorted(got) == [False, True]
    (kept,) = await kept_of(store, made.principal, PUBLIC)
    assert kept == (one if got[0] else two)
    assert len(await store.skills.history(made)) == 2
    before = await stored_of(store, made.principal)
    for revision in (2, 4):
        assert not await store.skills.change(replace(one, revision=revision), done(), ())
    assert await stored_of(store, made.principal) == before


async def test_as_many_skills_are_kept_at_a_label_as_may(store: RedisStore) -> None:
    who, most = fresh(), 2
    first = skilled(who)
    elsewhere = (parse("PUBLIC~"), INTERNAL, parse("PUBLIC{hr}"))
    for one in (first, skilled(who), *(skilled(who, label) for label in elsewhere)):
        await store.skills.create(one, done(), most, ())
    before = await stored_of(store, who)
    with pytest.raises(FullError):
        await store.skills.create(skilled(who), done(), most, ())
    # What anybody may have written takes no room of what is TRUSTED.
    assert await stored_of(store, who) == before
    # One that changes needs no more room; one that was rejected leaves its own, and a deprecated one does not.
    for revision, state in enumerate((SkillState.ACTIVE, SkillState.DEPRECATED), 2):
        assert await store.skills.change(replace(first, state=state, revision=revision), done(), ())
    with pytest.raises(FullError):
        await store.skills.create(skilled(who), done(), most, ())
    assert await store.skills.change(replace(first, state=SkillState.REJECTED, revision=4), done(), ())
    await store.skills.create(skilled(who), done(), most, ())
    with pytest.raises(FullError):
        await store.skills.create(skilled(who), done(), most, ())


async def test_what_is_done_at_one_label_changes_nothing_of_another(store: RedisStore) -> None:
    low = skilled(fresh())
    await store.skills.create(low, done(), 1, ())
    before, version = await of_label(store, low.principal, PUBLIC), (await store.skills.versions(low.principal))[PUBLIC]
    for label in (INTERNAL, SECRET, ABOVE):
        made = skilled(low.principal, label)
        await store.skills.create(made, done(), 5, ())
        await store.skills.change(replace(made, revision=2), done(), ())
        await store.skills.reflect(low.principal, low.id, Reflection(5, Outcome.FAILURE, label, "bad"), fresh())
    assert len(before) == 3
    assert await of_label(store, low.principal, PUBLIC) == before
    versions = await store.skills.versions(low.principal)
    assert (versions[PUBLIC], versions.keys()) == (version, {PUBLIC, INTERNAL, SECRET, ABOVE})
    # Nor are memories and skills counted, or told to have changed, with one another.
    await store.memories.learn(learned(low.principal), 1, ())
    assert await store.skills.versions(low.principal) == versions
    assert list(await store.memories.versions(low.principal)) == [PUBLIC]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_changes_come_in_pages(store: RedisStore, size: int) -> None:
    who = fresh()
    made = [skilled(who) for _ in range(3)]
    for one in made:
        await store.skills.create(one, done(), 9, ())
    assert await store.skills.change(replace(made[0], revision=2), done(), ())
    found, at, more = list[Skill](), 0, True
    while more:
        page = await store.skills.changes(who, PUBLIC, at, size)
        found, at, more = [*found, *page.changed], page.version, page.more
    assert [one.id for one in found] == [made[1].id, made[2].id, made[0].id]
    assert (await store.skills.versions(who))[PUBLIC] == at
    assert await store.skills.changes(who, PUBLIC, at, size) == SkillChanges(at, ())


async def test_no_version_comes_twice_where_the_clock_went_back(store: RedisStore) -> None:
    who = fresh()
    await store.skills.create(skilled(who), done(), 9, ())
    await command(store, "HSET", skill_keys(who, "").versions, "PUBLIC", 2**50)
    await store.skills.create(new := skilled(who), done(), 9, ())
    assert await store.skills.versions(who) == {PUBLIC: 2**50 + 1}
    assert (await store.skills.changes(who, PUBLIC, 2**50, 9)).changed == (new,)


async def test_a_log_keeps_the_newest_events(store: RedisStore) -> None:
    made, other = skilled(fresh()), skilled()
    await store.skills.create(replace(other, principal=made.principal), done(), 5, ())
    events = [SkillEvent(5 + number, "ann", SkillDeed.UPDATED, number, bool(number % 2)) for number in range(1, 204)]
    await store.skills.create(made, events[0], 5, ())
    for event in events[1:]:
        assert await store.skills.change(replace(made, revision=event.version), event, ())
    assert await store.skills.history(made) == tuple(events[::-1][:MOST_EVENTS])


async def test_outcomes_are_counted_by_the_label_of_who_tells_them(store: RedisStore) -> None:
    who, op = fresh(), fresh()
    for _ in range(2):
        await store.skills.reflect(who, "a", Reflection(5, Outcome.SUCCESS, PUBLIC), op)
    await store.skills.reflect(who, "a", Reflection(6, Outcome.FAILURE, PUBLIC, "burnt"), fresh())
    await store.skills.reflect(who, "b", Reflection(7, Outcome.FAILURE, PUBLIC, "cold"), fresh())
    await store.skills.reflect(who, "a", Reflection(8, Outcome.SUCCESS, ABOVE, "fine"), fresh())
    assert await store.skills.versions(who) == {PUBLIC: 0, ABOVE: 0}
    names = ("a", "b", "a", "none")
    low = {"a": SuccessRate(2, 1), "b": SuccessRate(1, 0)}
    assert await store.skills.rates(who, (PUBLIC, PUBLIC, SECRET), names) == low
    assert await store.skills.rates(who, (PUBLIC, ABOVE), names) == {**low, "a": SuccessRate(3, 2)}
    for readers, ids in ((SECRET,), names), ((), names), ((PUBLIC,), ()):
        assert await store.skills.rates(who, readers, ids) == {}
    burnt, fine = Reflection(6, Outcome.FAILURE, PUBLIC, "burnt"), Reflection(8, Outcome.SUCCESS, ABOVE, "fine")
    assert await store.skills.notes(who, (PUBLIC, PUBLIC), "a") == (burnt,)
    assert await store.skills.notes(who, (PUBLIC, ABOVE), "a") == (fine, burnt)
    assert await store.skills.notes(who, (), "a") == ()


async def test_the_newest_notes_are_kept_of_each_label(store: RedisStore) -> None:
    who = fresh()
    await store.skills.reflect(who, "a", Reflection(1, Outcome.SUCCESS, ABOVE, "first"), fresh())
    for number in range(MOST_NOTES + 5):
        await store.skills.reflect(who, "a", Reflection(number, Outcome.SUCCESS, PUBLIC, f"note {number}"), fresh())
    noted = await store.skills.notes(who, (PUBLIC,), "a")
    assert [one.notes for one in noted] == [f"note {number}" for number in range(MOST_NOTES + 4, 4, -1)]
    assert len(await store.skills.notes(who, (ABOVE,), "a")) == 1


async def test_the_audit_tells_of_a_change_before_it_and_once(store: RedisStore) -> None:
    one, what = skilled(fresh()), fresh()
    tell = (row(what),)
    place = skill_keys(one.principal, "PUBLIC").skills
    await command(store, "HSET", place, one.id, b"\xc1junk")

    async def rows() -> int:
        return sum(one.body == {"what": what} for one in await store.audit.records(AUDIT, limit=100_000))

    with pytest.raises(SchemaError):
        await store.skills.create(one, done(), 1, tell)
    assert await rows() == 1
    await command(store, "HDEL", place, one.id)
    for _ in range(2):
        await store.skills.create(one, done(), 1, tell)
    assert await rows() == 1
    for revision in (2, 3):
        await store.skills.change(replace(one, revision=revision), done(), tell)
    assert await rows() == 3


@pytest.mark.parametrize("junk", [b"\xc1junk", b"\x80"])
async def test_a_skill_that_cannot_be_read_ends_a_change_before_it_wrote(store: RedisStore, junk: bytes) -> None:
    made = skilled(fresh())
    await store.skills.create(made, done(), 5, ())
    keys = skill_keys(made.principal, "PUBLIC")
    await command(store, "HSET", keys.skills, made.id, junk)
    before = await stored_of(store, made.principal)
    for revision in (1, 2):
        with pytest.raises(SchemaError):
            await store.skills.change(replace(made, revision=revision), done(), ())
    assert await stored_of(store, made.principal) == before
    with pytest.raises(SchemaError):
        await kept_of(store, made.principal, PUBLIC)
    await command(store, "LPUSH", keys.log("PUBLIC", made.id), junk)
    await command(store, "LPUSH", keys.notes("PUBLIC", made.id), junk)
    for asked in (store.skills.history(made), store.skills.notes(made.principal, (PUBLIC,), made.id)):
        with pytest.raises(SchemaError):
            await asked


async def test_round_trips(store: RedisStore) -> None:
    counting = Counting(store._shared.connection._servers)
    connection = Connection(counting, await asyncio.to_thread(load_scripts), name="p-counted")
    counted = RedisStore(connection, options=StoreOptions(), audit_key=KEY, clock=SystemClock(), ids=Ids()).skills
    who = fresh()

    async def trips_of(one: Skill) -> dict[str, int]:
        await store.skills.create(one, done(), 100, ())
        of_both = {PUBLIC: (one.id,), SECRET: (one.id,)}
        steps: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: counted.create(skilled(who), done(), 100, (row(),)),
            "change": lambda: counted.change(replace(one, revision=2), done(), (row(),)),
            "versions": lambda: counted.versions(who),
            "skills": lambda: counted.skills(who, of_both),
            "rates": lambda: counted.rates(who, [PUBLIC, SECRET], [one.id]),
            "reflect": lambda: counted.reflect(who, one.id, Reflection(5, Outcome.SUCCESS, PUBLIC), fresh()),
            "changes": lambda: counted.changes(who, PUBLIC, 0, 10),
            "history": lambda: counted.history(one),
        }
        trips = dict[str, int]()
        for name, step in steps.items():
            counting.trips = 0
            await step()
            trips[name] = counting.trips
        return trips

    # At the second the scripts are there, and the head of the chain is known.
    await trips_of(skilled(who))
    once = dict.fromkeys(("versions", "skills", "rates", "reflect", "history"), 1)
    assert await trips_of(skilled(who)) == {"create": 2, "change": 2, "changes": 2, **once}
