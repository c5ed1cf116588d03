"""Counts: one for all processes, for a time that begins with the first."""

import asyncio

import pytest

from bot.store.redis_store import RedisStore
from bot.store.schema import count_key
from tests.store.world import command, fresh

pytestmark = pytest.mark.anyio


async def test_a_count_counts_until_its_time_is_over(store: RedisStore) -> None:
    name, other = fresh(), fresh()
    assert [await store.counts.count(name, 60_000) for _ in range(3)] == [1, 2, 3]
    assert await store.counts.count(other, 30) == 1
    await asyncio.sleep(0.05)
    assert await store.counts.count(other, 60_000) == 1


async def test_a_count_can_go_on_or_be_forgotten(store: RedisStore) -> None:
    name = fresh()
    await store.counts.count(name, 60_000)
    await store.counts.keep(name, 600_000)
    assert await command(store, "PTTL", count_key(name)) > 60_000
    assert await store.counts.count(name, 30) == 2
    await store.counts.keep(name, 0)
    assert await store.counts.count(name, 30) == 1
