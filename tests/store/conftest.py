"""A real server for these tests: started once by our own supervisor, stopped by it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.store.embedded_server import Supervisor
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from tests.store.world import KEY, served


@pytest.fixture(scope="session")
def server() -> Iterator[Supervisor]:
    """One server for all tests that do not harm it; each uses sessions of its own."""
    yield from served()


@pytest.fixture
async def store(server: Supervisor) -> AsyncIterator[RedisStore]:
    """A store on that server."""
    opened = await open_store(audit_key=KEY, url=server.url)
    yield opened
    await opened.close()


@pytest.fixture
async def other(server: Supervisor) -> AsyncIterator[RedisStore]:
    """Another process' store on the same server, as far as the server can tell."""
    opened = await open_store(audit_key=KEY, url=server.url)
    yield opened
    await opened.close()


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[RedisStore]:
    """A store with a server of its own, for a test that harms it."""
    opened = await open_store(audit_key=KEY, data=tmp_path / "data")
    yield opened
    await opened.close()
