"""The queue of ready sessions: principals have turns in rotation, in the order of their sessions, whatever is lost."""

# pyright: reportPrivateUsage=false

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import OPEN, READY, READY_POOLS
from bot.store.waking.ready_queue import pool_name
from tests.fleets import Kind, Served
from tests.store.world import KEY, child, claimed, command, fresh, item

PEOPLE: Final = ("ann", "bob", "cyd", "dan")

MOST: Final = 2
"""So many turns may another principal have between two turns of one that waits: one, and one that stood level."""


@dataclass
class Waiting:
    """A principal's sessions that wait, and how many turns others had since its last one, or since it came."""

    sids: deque[str] = field(default_factory=deque[str])
    others: Counter[str] = field(default_factory=Counter[str])


def steps() -> st.SearchStrategy[list[str | int]]:
    """Draw arrivals of sessions by their principals, of which one has far more, and turns for some sessions."""
    come = st.sampled_from((*PEOPLE, "ann", "ann", "ann", "bob"))
    return st.lists(st.one_of(come, come, st.integers(1, 3)), min_size=20, max_size=80)


@given(steps())
def test_each_principal_that_waits_has_turns_as_often_as_any_other(one: Served, asked: list[str | int]) -> None:
    asyncio.run(_rotates(one.url, asked))


async def _rotates(url: str, asked: Sequence[str | int]) -> None:
    store = await open_store(audit_key=KEY, url=url)
    await command(store, "DEL", READY, READY_POOLS)
    people, numbers = {name: Waiting() for name in PEOPLE}, count()
    for step in asked:
        if isinstance(step, str):
            sid = f"{step}-{next(numbers)}"
            store._shared.queue.know(sid, step, background=False)
            await store.wake.again((sid,), behind=True)
            people[step].sids.append(sid)
        elif any(one.sids for one in people.values()):
            for sid in await store.wake.ready(wait=1, most=step):
                _served(people, sid)
    await store.close()


def _served(people: dict[str, Waiting], sid: str) -> None:
    """Note a turn: it is of the principal's oldest session, and none of the others waited for too long."""
    name = sid.partition("-")[0]
    assert people[name].sids.popleft() == sid
    people[name].others.clear()
    for other, waiting in people.items():
        if other != name and waiting.sids:
            waiting.others[name] += 1
            assert waiting.others[name] <= MOST
        elif other != name:
            waiting.others.clear()


async def _taken(store: RedisStore) -> list[str]:
    """Take everything from the queue."""
    return [*await store.wake.ready(wait=0.05)]


async def _wrote(store: RedisStore, who: str, sid: str = "") -> str:
    """Have a person write in a session."""
    sid = sid or fresh()
    await store.sessions.accept(replace(item(sid, fresh()), principal=who, sender=who))
    return sid


@pytest.mark.anyio
async def test_a_message_comes_next_behind_a_hundred_sessions_of_another_person(own: RedisStore) -> None:
    many = [await _wrote(own, "ann") for _ in range(100)]
    one = await _wrote(own, "bob")
    assert await own.wake.ready(wait=1, most=2) == (many[0], one)
    assert await _taken(own) == many[1:65]


@pytest.mark.anyio
async def test_a_message_comes_next_behind_the_background_sessions_of_the_same_person(own: RedisStore) -> None:
    parent = await _wrote(own, "ann")
    tasks = [child(parent) for _ in range(20)]
    await _taken(own)
    for task in tasks:
        await own.sessions.accept(task)
    await _wrote(own, "ann", parent)
    assert await own.wake.ready(wait=1, most=2) == (tasks[0].sid, parent)


@pytest.mark.anyio
async def test_a_session_that_is_given_back_keeps_its_place(own: RedisStore) -> None:
    first, second, third = [await _wrote(own, "ann") for _ in range(3)]
    assert await own.wake.ready(wait=1, most=2) == (first, second)
    await own.wake.again((second,))
    await own.wake.again((first,))
    assert await _taken(own) == [first, second, third]
    # One that a claim found no place for is given back in the same way, and what is marked anew is not.
    await own.wake.again((first, second))
    assert await own.wake.ready(wait=1, most=1) == (first,)
    await own.sessions.release(await claimed(own, first))
    await own.wake.again((third,), behind=True)
    assert await _taken(own) == [first, second, third]


@pytest.mark.anyio
async def test_a_place_of_an_earlier_queue_is_not_behind_those_that_come(own: RedisStore) -> None:
    *_, last = [await _wrote(own, "ann") for _ in range(30)]
    await _taken(own)
    await _wrote(own, "bob")
    await own.wake.again((last,))
    others = [await _wrote(own, who) for who in ("cyd", "dan", "eve")]
    assert (await _taken(own))[1:] == [last, *others]


@pytest.mark.anyio
async def test_a_session_that_is_marked_already_keeps_its_place(own: RedisStore) -> None:
    first = await _wrote(own, "ann")
    second = await _wrote(own, "ann")
    for _ in range(3):
        await _wrote(own, "ann", first)
    other = await _wrote(own, "bob")
    assert await _taken(own) == [first, other, second]


@pytest.mark.anyio
async def test_a_sweep_of_a_process_that_knows_nobody_has_principals_in_rotation(own: RedisStore, own_url: str) -> None:
    many = list[str]()
    for _ in range(5):
        many.append(await _wrote(own, "ann"))
        # Records have the time of their last change in milliseconds; changes within one have no order.
        await asyncio.sleep(0.002)
    one = await _wrote(own, "bob")
    await command(own, "DEL", READY, READY_POOLS, OPEN)
    stranger = await open_store(audit_key=KEY, url=own_url)
    assert set(await stranger.wake.sweep()) == {*many, one}
    # Within a principal it is the order of the records' last changes.
    assert await stranger.wake.ready(wait=1, most=2) == (many[0], one)
    assert await _taken(stranger) == many[1:]
    await stranger.close()


@pytest.mark.anyio
async def test_sessions_of_unknown_principals_share_the_turns_of_one(own: RedisStore) -> None:
    unknown = tuple(f"s{number}" for number in range(5))
    await own.wake.again(unknown, behind=True)
    known = await _wrote(own, "ann")
    assert await own.wake.ready(wait=1, most=2) == ("s0", known)


@pytest.mark.anyio
@pytest.mark.several_servers(Kind.ONE, Kind.CLUSTER)
async def test_a_server_that_lost_its_scripts_is_given_them_with_the_mark(own: RedisStore) -> None:
    sid = await _wrote(own, "ann")
    await _taken(own)
    await own._shared.connection.everywhere(("SCRIPT", "FLUSH"))
    await _wrote(own, "ann", sid)
    assert await _taken(own) == [sid]
    await own._shared.connection.everywhere(("SCRIPT", "FLUSH"))
    await own.wake.again((sid,))
    assert await _taken(own) == [sid]


@pytest.mark.anyio
async def test_what_is_kept_of_pools_ends_with_the_queue(own: RedisStore) -> None:
    for who in PEOPLE:
        await _wrote(own, who)
    assert await command(own, "ZCARD", READY_POOLS) == len(PEOPLE) + 1
    await _taken(own)
    await _wrote(own, "ann")
    members: list[bytes] = await command(own, "ZRANGE", READY_POOLS, 0, -1)
    assert set(members) == {b"", pool_name("ann", background=False).encode()}


def test_a_pool_is_named_by_its_principal_and_kind_and_tells_neither() -> None:
    names = {pool_name(who, background=background) for who in ("ann", "bob") for background in (True, False)}
    assert len(names) == 4
    assert not any("ann" in name or "bob" in name for name in names)
