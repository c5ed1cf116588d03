"""What programs ask of the script `accept`: a session begun once, told something, and kept from others."""

import asyncio
from dataclasses import replace

import pytest

from bot.core.errors import (
    ArchivedError,
    DedupeConflictError,
    DeletedError,
    NotFoundError,
)
from bot.sessions.inbox import Metadata, NewItem, QueueMode
from bot.sessions.models import Status
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, parse
from tests.store.world import SECRET, TOP, claimed, command, dump, fresh, item, keys, opening, row

pytestmark = pytest.mark.anyio

METADATA = Metadata('{"job": 7}', parse("INTERNAL"))


def begun(sid: str, created_with: str = "c1", text: str = "hello") -> NewItem:
    """Return the first input of a session of a program."""
    return replace(item(sid, text=text), created_with=created_with, metadata=METADATA, mode=QueueMode.QUEUE)


def told(sid: str, dedupe: str = "d2", mode: QueueMode = QueueMode.QUEUE) -> NewItem:
    """Return an input of a program that may know of everything."""
    return replace(item(sid, dedupe), mode=mode, reader=TOP)


async def test_a_session_keeps_what_its_program_began_it_with(store: RedisStore) -> None:
    sid = fresh()
    accepted = await store.sessions.accept(begun(sid))
    state = await store.sessions.state(sid)
    assert state is not None
    assert not accepted.duplicate
    assert accepted.created_at == state.created_at > 0
    assert (state.metadata, state.mode) == (METADATA, QueueMode.QUEUE)


async def test_the_same_again_is_the_same_session(store: RedisStore) -> None:
    sid = fresh()
    first = await store.sessions.accept(begun(sid))
    before = await dump(store, sid)
    again = await store.sessions.accept(begun(sid))
    assert (again.duplicate, again.position, again.created_at) == (True, 1, first.created_at)
    assert await dump(store, sid) == before


@pytest.mark.parametrize("other", [begun("", "c2"), begun("", text="bye"), item("")])
async def test_another_body_is_a_conflict(store: RedisStore, other: NewItem) -> None:
    sid = fresh()
    await store.sessions.accept(begun(sid))
    before = await dump(store, sid)
    # What no program began a session with is another input of it.
    if other.created_with == "c1" or not other.created_with:
        other = replace(other, body=begun("", text="bye").body)
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(replace(other, sid=sid))
    assert await dump(store, sid) == before


async def test_a_session_that_no_program_began_is_a_conflict(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid, "other"))
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(begun(sid))


async def test_one_that_was_begun_is_known_when_its_input_is_forgotten(store: RedisStore) -> None:
    """A session knows its inputs for 24 hours after their end: as here, when the clock went on for 25 hours."""
    sid = fresh()
    first = await store.sessions.accept(begun(sid))
    await command(store, "DEL", keys(sid).inputs)
    before = await dump(store, sid)
    again = await store.sessions.accept(begun(sid))
    assert (again.duplicate, again.created_at) == (True, first.created_at)
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(begun(sid, "c2"))
    assert await dump(store, sid) == before


@pytest.mark.parametrize("forgotten", [False, True])
async def test_an_archived_one_stays_in_its_place(store: RedisStore, forgotten: bool) -> None:  # noqa: FBT001 - a case
    sid = fresh()
    await store.sessions.accept(begun(sid))
    await store.lifecycle.archive(sid, actor="ann", audit=(row(),))
    if forgotten:
        await command(store, "DEL", keys(sid).inputs)
    assert (await store.sessions.accept(begun(sid))).duplicate
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(begun(sid, "c2"))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.status is Status.ARCHIVED
    with pytest.raises(ArchivedError):
        await store.sessions.accept(told(sid))


@pytest.mark.parametrize("body", ["c1", "c2"])
async def test_a_deleted_one_leaves_its_key(store: RedisStore, body: str) -> None:
    sid = fresh()
    await store.sessions.accept(begun(sid))
    await store.lifecycle.delete(sid, (row(),))
    # Which inputs it had is known for a day.
    assert await command(store, "EXISTS", keys(sid).inputs)
    with pytest.raises(DeletedError):
        await store.sessions.accept(begun(sid, body))
    assert await command(store, "HLEN", keys(sid).inputs) == 1


async def test_what_it_was_begun_with_survives_a_reset(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(begun(sid))
    state = await store.sessions.reset(sid, op=fresh(), actor="ann", audit=(row(),))
    assert state.metadata == METADATA
    with pytest.raises(DedupeConflictError):
        await store.sessions.accept(begun(sid, "c2"))


async def test_many_at_once_begin_one_session(store: RedisStore, other: RedisStore) -> None:
    sid = fresh()
    stores = [store, other] * 10
    bodies = ["c1", "c2"] * 10
    asked = [one.sessions.accept(begun(sid, body)) for one, body in zip(stores, sorted(bodies), strict=True)]
    got = await asyncio.gather(*asked, return_exceptions=True)
    accepted = [one for one in got if not isinstance(one, BaseException)]
    assert len(accepted) == 10
    assert sum(not one.duplicate for one in accepted) == 1
    assert all(isinstance(one, DedupeConflictError) for one in got if isinstance(one, BaseException))
    assert len(await store.sessions.waiting(sid)) == 1


@pytest.mark.parametrize("mode", QueueMode)
async def test_the_mode_counts_from_its_message_on(store: RedisStore, mode: QueueMode) -> None:
    sid = fresh()
    await store.sessions.accept(begun(sid))
    assert (await store.sessions.accept(told(sid, mode=mode))).position == 2
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.mode is mode
    # One that came before says nothing new.
    await store.sessions.accept(told(sid, "d3", QueueMode.QUEUE))
    await store.sessions.accept(told(sid, mode=mode))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.mode is QueueMode.QUEUE


async def test_a_message_that_interrupts_stops_the_turn_in_the_same_step(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(begun(sid))
    claim = await claimed(store, sid)
    await store.sessions.record(claim, opening(claim))
    assert (await store.sessions.accept(told(sid, "d2", QueueMode.STEER))).stopping == ""
    assert (await store.sessions.accept(told(sid, "d3", QueueMode.INTERRUPT))).stopping == "t"


async def test_nobody_speaks_in_a_session_that_they_may_not_know_of(store: RedisStore) -> None:
    sid, risen, gone, absent = fresh(), fresh(), fresh(), fresh()
    await store.sessions.accept(begun(sid))
    await store.sessions.accept(replace(begun(risen), label=SECRET))
    await store.sessions.accept(begun(gone))
    await store.lifecycle.delete(gone, (row(),))
    before = [await dump(store, one) for one in (sid, risen, gone, absent)]
    for new in (
        replace(told(sid), principal="ben", sender="ben"),
        replace(told(risen), reader=PUBLIC),
        told(gone),
        told(absent),
    ):
        with pytest.raises(NotFoundError):
            await store.sessions.accept(new)
    assert [await dump(store, one) for one in (sid, risen, gone, absent)] == before
