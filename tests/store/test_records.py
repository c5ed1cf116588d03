"""The form of records: what goes in comes out, in Python and in scripts, and what a reader does not know is kept."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import SchemaError
from bot.sessions.approvals import ApprovalState
from bot.sessions.background.delegation import Caps
from bot.sessions.background.run_states import Priority
from bot.sessions.background.runs import NewNote, ProgressChange, RunSlot
from bot.sessions.deliveries import DeliveryPause, DeliveryState, SendSlot
from bot.sessions.models import SCHEMA, Doing, Turn, Write
from bot.sessions.usage import Usage
from bot.store.opening import open_store
from bot.store.records import kinds
from bot.store.records.fields import VERSION, RecordType, Value
from bot.store.records.form import MOST, pack, pack_arguments, stored_map, unpack
from bot.store.records.kinds import (
    APPROVAL,
    DELIVERY,
    INPUT,
    PAIRING,
    PERSON,
    QUARANTINED,
    RECORDS,
    SEND_TURN,
    SLOT,
    TURN,
    USAGE,
)
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import (
    OVERRIDES,
    PAIRINGS,
    QUARANTINE,
    SCHEDULES,
    VAULT,
    encode,
    memory_keys,
    pace_keys,
    run_slots_key,
    skill_keys,
    slots_key,
    turn_field,
)
from bot.store.scripts.loader import Script, lua, script_text
from bot.store.servers.embedded_server import Supervisor
from policy.document.overrides import AccessChange, Person
from policy.labels import PUBLIC
from policy.request import Role
from tests.store.world import (
    HOME,
    IDS,
    KEY,
    answer,
    claimed,
    command,
    done,
    ending,
    fresh,
    item,
    keys,
    learned,
    run_started,
    scheduled,
    skilled,
    slot,
    started,
    state_field,
    stepping,
    suspended,
)

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES: Final[dict[type, st.SearchStrategy[Value]]] = {str: TEXT, int: st.integers(0, MOST - 1), bool: st.booleans()}
NONEMPTY = TEXT.filter(bool)
UNKNOWN = st.dictionaries(st.text("xyz", min_size=1).map(lambda name: f"{name}9"), st.one_of(*VALUES.values()))


def values(kind: RecordType) -> st.SearchStrategy[dict[str, Value]]:
    fields = [field for field in kind.fields if field.name != VERSION]
    # One with another default than nothing is never nothing.
    return st.fixed_dictionaries(
        {
            field.name: VALUES[field.type].filter(bool)
            if field.default in {"PUBLIC", "internal"}
            else VALUES[field.type]
            for field in fields
        }
    )


ANY = st.sampled_from(RECORDS).flatmap(lambda kind: st.tuples(st.just(kind), values(kind)))


@given(ANY)
def test_a_record_comes_back(made: tuple[RecordType, dict[str, Value]]) -> None:
    kind, given_ = made
    found = unpack(kind, pack(kind, given_))
    assert {name: value for name, value in found.items() if name != VERSION} == given_
    assert all(type(value) in VALUES for value in stored_map(pack(kind, given_)).values())


def test_each_name_is_stored_in_one_way_and_has_one_type() -> None:
    assert len(set(NAMES.values())) == len(NAMES)
    types = dict[str, set[type]]()
    for kind in RECORDS:
        assert len({field.name for field in kind.fields}) == len(kind.fields), kind.name
        for field in kind.fields:
            # A label is a text that has a default in a session's record alone.
            types.setdefault(field.name, set()).add(field.type)
    assert types.keys() == NAMES.keys()
    assert {name: found for name, found in types.items() if len(found) > 1} == {}


def test_what_is_absent_has_its_default() -> None:
    shortest = pack(TURN, {"id": "t"})
    assert stored_map(shortest) == {NAMES["id"]: "t"}
    assert unpack(TURN, shortest)["suspended"] is False
    # As a script writes one that has no field.
    assert unpack(USAGE, b"\x90") == unpack(USAGE, pack(USAGE, {}))


def test_what_is_no_record_of_this_form_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        pack(TURN, {"id": "t", "position": MOST})
    with pytest.raises(KeyError, match="nothing"):
        pack(TURN, {"id": "t", "nothing": 1})
    with pytest.raises(KeyError, match="id"):
        pack(TURN, {})
    stored = stored_map(pack(DELIVERY, delivery()))
    for change in ({NAMES["number"]: "1"}, {NAMES["hops"]: 1.5}, {NAMES["sender"]: ["x"]}, {NAMES["address"]: None}):
        with pytest.raises(ValueError, match="another type"):
            unpack(DELIVERY, pack_arguments(stored | change))
    for broken in (b"", b"x", b"\x90", b"\xc1", b"\x82\xa1v", b"\x81\xa1v\xa1x", pack_arguments([1])):
        with pytest.raises((ValueError, KeyError)):
            unpack(DELIVERY, broken)


@pytest.mark.parametrize("version, step", [(SCHEMA + 1, "upgrade lockgate"), (SCHEMA - 1, "another `data_dir`")])
def test_a_record_of_another_version_is_refused(version: int, step: str) -> None:
    stored = stored_map(pack(DELIVERY, delivery())) | {NAMES["version"]: version}
    with pytest.raises(SchemaError, match=f"version `{version}`") as caught:
        unpack(DELIVERY, pack_arguments(stored))
    assert step in caught.value.next_step


def delivery() -> dict[str, Value]:
    text = {"state": "pending", "channel": "console", "address": HOME, "label": "PUBLIC", "body": '"x"'}
    return {**text, "number": 1, "generation": 1, "created": 1}


# In scripts -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner(server: Supervisor) -> Iterator[tuple[asyncio.Runner, RedisStore]]:
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())


@given(st.lists(st.tuples(ANY, UNKNOWN), min_size=1, max_size=5))
def test_a_script_writes_a_record_as_it_read_it(
    runner: tuple[asyncio.Runner, RedisStore], made: list[tuple[tuple[RecordType, dict[str, Value]], dict[str, Value]]]
) -> None:
    """Both ways: what Python wrote a script reads and writes, and Python reads what it wrote."""
    loop, store = runner
    again = "local out = {} for i, one in ipairs(A) do out[i] = encode_part(decode_part(one)) end return out"
    stored = [pack_arguments(stored_map(pack(kind, given_)) | unknown) for (kind, given_), unknown in made]
    asked = ("EVAL", script_text(Script.PROBE, lua("prelude"), again).text, 1, keys("x").state, pack_arguments(stored))
    (written,) = loop.run(store._shared.connection.commands(asked))
    for ((kind, _), unknown), before, after in zip(made, stored, written, strict=True):
        # What is zero, false or empty is left out, of fields that nobody here knows too.
        kept = {name: value for name, value in unknown.items() if value not in {0, ""}}
        assert {name: value for name, value in stored_map(after).items() if name in unknown} == kept
        known = {field.name for field in kind.fields if isinstance(field.default, type)}
        if all(unpack(kind, before)[name] not in {0, ""} for name in known):
            assert unpack(kind, after) == unpack(kind, before)


async def add_unknown(store: RedisStore, key: str, field: str) -> None:
    """Put fields into a record of a hash that this program does not know."""
    stored: bytes = await command(store, "HGET", key, field)
    await command(store, "HSET", key, field, pack_arguments(stored_map(stored) | {"new1": "kept", "new2": 7}))


async def kept(store: RedisStore, key: str, field: str) -> bool:
    found = stored_map(await command(store, "HGET", key, field))
    return (found.get("new1"), found.get("new2")) == ("kept", 7)


async def settled_delivery(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    place = keys(claim.sid).outbox
    await add_unknown(store, place, "k1")
    (taken,) = await store.outbox.take(claim.sid, "me", ("console",))
    await store.outbox.settle(taken, "me", DeliveryState.SENT, receipt="r")
    return place, "k1", DELIVERY


async def taken_input(store: RedisStore) -> tuple[str, str, RecordType]:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await add_unknown(store, keys(sid).inputs, "d1")
    await store.sessions.stop(sid, actor="ann")
    return keys(sid).inputs, "d1", INPUT


async def answered_approval(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, asked = await suspended(store)
    await add_unknown(store, keys(claim.sid).approvals, asked.id)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=())
    return keys(claim.sid).approvals, asked.id, APPROVAL


async def turn_written_again(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, written = await started(store)
    await add_unknown(store, keys(claim.sid).state, NAMES["turn"])
    turn = Turn("t", 1, "d1", "ann", claim.now, hops=2)
    await store.sessions.record(claim, Write(fresh(), written.seq, turn=turn, release=True))
    assert await claimed(store, claim.sid)
    return keys(claim.sid).state, NAMES["turn"], TURN


async def usage_added(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, usage=Usage(1, 2, 3)))
    await add_unknown(store, keys(claim.sid).state, NAMES["usage"])
    await store.sessions.record(claim, Write(fresh(), written.seq, usage=Usage(1, 2, 3)))
    return keys(claim.sid).state, NAMES["usage"], USAGE


async def freed_slot(store: RedisStore) -> tuple[str, str, RecordType]:
    principal = fresh()
    await store.delegation.reserve(principal, slot("r"), Caps(5, 5, 2))
    await add_unknown(store, slots_key(principal), "r")
    await store.delegation.reserve(principal, slot("r"), Caps(5, 5, 2))
    await store.delegation.free(principal, await store.delegation.slots(principal))
    return slots_key(principal), "r", SLOT


async def changed_person(store: RedisStore) -> tuple[str, str, RecordType]:
    name = fresh()
    count, _ = await store.access.overrides()
    await store.access.override(AccessChange(people={name: Person(Role.GUEST)}), count, ())
    await add_unknown(store, OVERRIDES, f"person:{name}")
    await store.access.override(AccessChange(people={name: Person(Role.MEMBER)}), count + 1, ())
    return OVERRIDES, f"person:{name}", PERSON


async def renewed_value(store: RedisStore) -> tuple[str, str, RecordType]:
    name = fresh()
    await store.vault([KEY]).put(name, b"token")
    await add_unknown(store, VAULT, encode(name))
    await store.vault([bytes(32), KEY]).renew()
    assert await store.vault([bytes(32)]).get(name) == b"token"
    return VAULT, encode(name), kinds.KEPT


async def failed_again(store: RedisStore) -> tuple[str, str, RecordType]:
    sid = fresh()
    await store.quarantine.add(sid, Doing.WORK, error="E", where="w", audit=())
    await add_unknown(store, QUARANTINE, f"{sid}/work")
    stored = stored_map(await command(store, "HGET", QUARANTINE, f"{sid}/work")) | {NAMES["lapses"]: 1}
    await command(store, "HSET", QUARANTINE, f"{sid}/work", pack_arguments(stored))
    again, _ = await store.quarantine.add(sid, Doing.WORK, error="E", where="w", audit=())
    assert again.tries == 2
    return QUARANTINE, f"{sid}/work", QUARANTINED


async def wrong_code_again(store: RedisStore) -> tuple[str, str, RecordType]:
    who = fresh()
    await store.access.try_pairing(who, "wrong")
    await add_unknown(store, PAIRINGS, f"t:{who}")
    await store.access.try_pairing(who, "wrong")
    return PAIRINGS, f"t:{who}", PAIRING


async def waited_again(store: RedisStore) -> tuple[str, str, RecordType]:
    place = f"chat:{fresh()}:room:"
    turn = SendSlot(place, "s", "k")
    await store.rate_limits.pause(turn, DeliveryPause.TEXT, 1000)
    await add_unknown(store, pace_keys(place).place, turn_field("s", "k"))
    await store.rate_limits.pause(turn, DeliveryPause.TEXT, 2000)
    return pace_keys(place).place, turn_field("s", "k"), SEND_TURN


async def read_note(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, written = await run_started(store)
    await store.runs.steer(claim.sid, NewNote("n", Priority.ABORT, "end", PUBLIC, "ann"), ())
    await add_unknown(store, keys(claim.sid).notes, "n")
    await store.sessions.record(claim, Write(fresh(), written.seq, acknowledge=("n",)))
    return keys(claim.sid).notes, "n", kinds.NOTE


async def stepped_run(store: RedisStore) -> tuple[str, str, RecordType]:
    claim, written = await run_started(store)
    await store.runs.change(claim, ProgressChange(task="a"))
    await add_unknown(store, keys(claim.sid).state, NAMES["progress"])
    await store.runs.change(claim, ProgressChange(completes=True))
    await store.sessions.commit(claim, stepping(written.seq, 1))
    return keys(claim.sid).state, NAMES["progress"], kinds.PROGRESS


async def freed_place(store: RedisStore) -> tuple[str, str, RecordType]:
    who, place = fresh(), RunSlot("r", "s", PUBLIC, "", since=0, until=2**45, fence=0, live=True)
    await store.runs.reserve(who, place, 5)
    await add_unknown(store, run_slots_key(who), "r")
    await store.runs.reserve(who, place, 5)
    await store.runs.lock(who, "r", "nightly", 1)
    await store.runs.free(who, "r")
    return run_slots_key(who), "r", kinds.RUN_SLOT


async def replaced_schedule(store: RedisStore) -> tuple[str, str, RecordType]:
    made = scheduled(fresh())
    await store.schedules.add(made, 5, ())
    await add_unknown(store, SCHEDULES, made.id)
    assert await store.schedules.replace(made, replace(made, failures=1))
    return SCHEDULES, made.id, kinds.SCHEDULE


async def corrected_memory(store: RedisStore) -> tuple[str, str, RecordType]:
    made = learned(fresh())
    place = memory_keys(made.principal, str(made.label)).memories
    await store.memories.learn(made, 5, ())
    await add_unknown(store, place, made.id)
    newer = replace(learned(made.principal), corrects=made.id)
    await store.memories.learn(newer, 5, ())
    assert await store.memories.forget(newer, ())
    return place, made.id, kinds.MEMORY


async def changed_skill(store: RedisStore) -> tuple[str, str, RecordType]:
    made = skilled(fresh())
    place = skill_keys(made.principal, str(made.label)).skills
    await store.skills.create(made, done(), 5, ())
    await add_unknown(store, place, made.id)
    assert await store.skills.change(replace(made, revision=2), done(), ())
    return place, made.id, kinds.SKILL


REWRITES: Final = (
    *(settled_delivery, taken_input, answered_approval, turn_written_again, usage_added, freed_slot),
    *(changed_person, renewed_value, failed_again, wrong_code_again, waited_again),
    *(read_note, stepped_run, freed_place, replaced_schedule, corrected_memory, changed_skill),
)


@pytest.mark.anyio
@pytest.mark.parametrize("rewrite", REWRITES)
async def test_what_a_program_does_not_know_is_kept_through_a_rewrite(
    store: RedisStore, rewrite: Callable[[RedisStore], Awaitable[tuple[str, str, RecordType]]]
) -> None:
    key, field, kind = await rewrite(store)
    assert await kept(store, key, field), IDS
    unpack(kind, await command(store, "HGET", key, field))


@pytest.mark.anyio
async def test_a_session_keeps_the_fields_that_a_program_does_not_know(store: RedisStore) -> None:
    claim, written = await started(store)
    await command(store, "HSET", keys(claim.sid).state, "new", "kept", "seq", "no stored name")
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert await command(store, "HGET", keys(claim.sid).state, "new") == b"kept"
    assert await state_field(store, claim.sid, "seq") == b"3"
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert await command(store, "HGET", keys(claim.sid).state, "new") == b"kept"
