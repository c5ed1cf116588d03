"""An offer is kept for its time, and goes the first way it is taken."""

import asyncio

import pytest

from bot.core.errors import SchemaError
from bot.sessions.alternatives import Way
from bot.store.keys import offer_key
from bot.store.redis_store import RedisStore
from tests.store.world import command, fresh, offered

pytestmark = pytest.mark.anyio


async def test_an_offer_is_read_as_it_was_made(store: RedisStore, other: RedisStore) -> None:
    made = offered(fresh())
    await store.make_offer(made, 60_000)
    assert await other.offer(made.code) == (made, None)
    assert await other.offer("never") is None


async def test_the_first_way_is_the_one_it_goes(store: RedisStore, other: RedisStore) -> None:
    made = offered(fresh())
    await store.make_offer(made, 60_000)
    ways = await asyncio.gather(store.take_offer(made.code, Way.PRIVATE), other.take_offer(made.code, Way.BACKGROUND))
    assert len(set(ways)) == 1
    assert await store.take_offer(made.code, Way.NONE) is ways[0]
    assert await store.offer(made.code) == (made, ways[0])


async def test_an_offer_ends_by_itself(store: RedisStore) -> None:
    made = offered(fresh())
    await store.make_offer(made, 20)
    await asyncio.sleep(0.05)
    assert await store.offer(made.code) is None
    assert await store.take_offer(made.code, Way.PRIVATE) is None
    # And nothing is left of it.
    assert await command(store, "EXISTS", offer_key(made.code)) == 0


async def test_a_newer_programs_offer_is_refused(store: RedisStore) -> None:
    made = offered(fresh())
    await store.make_offer(made, 60_000)
    await command(store, "HSET", offer_key(made.code), "v", 99)
    with pytest.raises(SchemaError):
        await store.offer(made.code)
    with pytest.raises(SchemaError):
        await store.take_offer(made.code, Way.PRIVATE)
