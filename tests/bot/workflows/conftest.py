"""The store of these tests: a real server, started once, and a file root."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from tests.fleets import Served
from tests.store.world import KEY, served


@pytest.fixture(scope="session")
def server() -> Iterator[Served]:
    """A server; each test has principals of its own."""
    yield from served()


@pytest.fixture
async def store(server: Served) -> AsyncIterator[RedisStore]:
    """The store there."""
    opened = await open_store(audit_key=KEY, url=server.url)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def runner(server: Served) -> Iterator[tuple[asyncio.Runner, RedisStore]]:
    """A loop and the store, for tests of many examples."""
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())
