"""Dangers to records that are written: a server that never syncs is told of, one that may not be asked is believed."""

import pytest

from bot.store.redis_store import RedisStore
from tests.store.world import command

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("they change how a server keeps its writes")]


async def test_how_often_a_server_syncs_is_told(own: RedisStore) -> None:
    found, often = await own.durability()
    assert (found, often) == ([], "always")
    await command(own, "CONFIG", "SET", "appendfsync", "everysec")
    assert await own.durability() == ([], "everysec")


async def test_a_server_that_never_syncs_is_told_of(own: RedisStore) -> None:
    await command(own, "CONFIG", "SET", "appendfsync", "no")
    (problem,), often = await own.durability()
    assert often == "no"
    assert str(problem) == "the store never syncs its writes to disk (`appendfsync` is `no`)"
    assert "`CONFIG SET appendfsync everysec`" in problem.next_step


async def test_a_server_that_does_not_let_us_ask_is_believed(own: RedisStore) -> None:
    await command(own, "ACL", "SETUSER", "default", "-config")
    assert await own.durability() == ([], "")
