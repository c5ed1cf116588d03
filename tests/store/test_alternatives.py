"""An offer is kept for its time, and goes the first way it is taken."""

import asyncio

import pytest

from bot.core.errors import SchemaError
from bot.sessions.alternatives import Way
from bot.store.records.kinds import ALTERNATIVE
from bot.store.redis_store import RedisStore
from bot.store.schema import offer_key
from tests.store.world import alter, command, fresh, offered

pytestmark = pytest.mark.anyio


async def test_an_offer_is_read_as_it_was_made(store: RedisStore, other: RedisStore) -> None:
    made = offered(fresh())
    await store.alternatives.make_offer(made, 60_000)
    assert await other.alternatives.offer(made.code) == (made, None)
    assert await other.alternatives.offer("never") is None


async def test_the_first_way_is_the_one_it_goes(store: RedisStore, other: RedisStore) -> None:
    made = offered(fresh())
    await store.alternatives.make_offer(made, 60_000)
    ways = await asyncio.gather(
        store.alternatives.take_offer(made.code, Way.PRIVATE), other.alternatives.take_offer(made.code, Way.BACKGROUND)
    )
    assert len(set(ways)) == 1
    assert await store.alternatives.take_offer(made.code, Way.NONE) is ways[0]
    assert await store.alternatives.offer(made.code) == (made, ways[0])


async def test_an_offer_ends_by_itself(store: RedisStore) -> None:
    made = offered(fresh())
    await store.alternatives.make_offer(made, 20)
    await asyncio.sleep(0.05)
    assert await store.alternatives.offer(made.code) is None
    assert await store.alternatives.take_offer(made.code, Way.PRIVATE) is None
    # And nothing is left of it.
    assert await command(store, "EXISTS", offer_key(made.code)) == 0


async def test_a_newer_programs_offer_is_refused(store: RedisStore) -> None:
    made = offered(fresh())
    await store.alternatives.make_offer(made, 60_000)
    await alter(store, ALTERNATIVE, offer_key(made.code), "offer", version=99)
    with pytest.raises(SchemaError):
        await store.alternatives.offer(made.code)
    with pytest.raises(SchemaError):
        await store.alternatives.take_offer(made.code, Way.PRIVATE)
