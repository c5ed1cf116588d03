"""Real servers for these tests, each started once: one server, what Sentinels look after, and a Cluster.

All tests run on one server. Those of `EVERYWHERE` and `SHARDED` run on others as well, and with
LOCKGATE_TEST_STORES=all, as `poe stores` sets it, all do but those whose mark `one_server` says why not.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from tests.fleets import Fleet, Kind, Served, cluster, sentinels
from tests.store.world import KEY, served

EVERYWHERE: Final = frozenset(
    {
        "test_accept",
        "test_changes",
        "test_claim",
        "test_memories",
        "test_trips",
        "test_wake",
        "test_webhooks",
        "test_workflows",
        "test_writes",
    }
)
"""The files whose tests run on every kind of store in each check."""

SHARDED: Final = frozenset({"test_lost_reply"})
"""Those that run on one server and on a Cluster there: a server that Sentinels look after keeps its scripts as one."""


class Fleets:
    """What these tests run on, started when it is first used."""

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self._fleets = dict[Kind, Fleet]()

    def of(self, kind: Kind) -> Fleet:
        if kind not in self._fleets:
            self._fleets[kind] = self._until.enter_context(cluster() if kind is Kind.CLUSTER else sentinels())
        return self._fleets[kind]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the kinds of store that it is for."""
    if "kind" not in metafunc.fixturenames or metafunc.definition.get_closest_marker("one_server"):
        return
    if several := metafunc.definition.get_closest_marker("several_servers"):
        kinds = several.args or (Kind.SENTINEL, Kind.CLUSTER)
        metafunc.parametrize("kind", kinds, indirect=True, scope="session", ids=str)
    elif os.environ.get("LOCKGATE_TEST_STORES") == "all" or metafunc.definition.path.stem in EVERYWHERE:
        metafunc.parametrize("kind", list(Kind), indirect=True, scope="session", ids=str)
    elif metafunc.definition.path.stem in SHARDED:
        metafunc.parametrize("kind", (Kind.ONE, Kind.CLUSTER), indirect=True, scope="session", ids=str)


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of store that a test runs on."""
    return getattr(request, "param", Kind.ONE)


@pytest.fixture(scope="session")
def fleets() -> Iterator[Fleets]:
    """The stores of several servers."""
    with ExitStack() as until:
        yield Fleets(until)


@pytest.fixture(scope="session")
def one() -> Iterator[Served]:
    """The store that is one server."""
    yield from served()


@pytest.fixture(scope="session")
def server(kind: Kind, one: Served, fleets: Fleets) -> Served:
    """A store for all tests that do not harm it; each uses sessions of its own."""
    return one if kind is Kind.ONE else fleets.of(kind)


@pytest.fixture
def fleet(kind: Kind, fleets: Fleets) -> Iterator[Fleet]:
    """Several servers, of which each that a test kills runs again before the next test."""
    fleet = fleets.of(kind)
    yield fleet
    fleet.mend()


@pytest.fixture
async def store(server: Served) -> AsyncIterator[RedisStore]:
    """A process' store."""
    opened = await open_store(audit_key=KEY, url=server.url)
    yield opened
    await opened.close()


@pytest.fixture
async def other(server: Served) -> AsyncIterator[RedisStore]:
    """Another process' store on the same servers, as far as these can tell."""
    opened = await open_store(audit_key=KEY, url=server.url)
    yield opened
    await opened.close()


@pytest.fixture
async def own(kind: Kind, fleets: Fleets, tmp_path: Path) -> AsyncIterator[RedisStore]:
    """An empty store: one server of its own, also for a test that harms it, or one of several servers."""
    if kind is Kind.ONE:
        opened = await open_store(audit_key=KEY, data=tmp_path / "data")
        yield opened
        await opened.close()
        return
    fleet = await asyncio.to_thread(fleets.of, kind)
    await asyncio.to_thread(fleet.empty)
    opened = await open_store(audit_key=KEY, url=fleet.url)
    yield opened
    await opened.close()
    # What it left may be what no program reads.
    await asyncio.to_thread(fleet.empty)


@pytest.fixture
def own_url(kind: Kind, fleets: Fleets, own: RedisStore) -> str:
    """The address at which other processes reach the empty store."""
    return fleets.of(kind).url if own.server is None else own.server.url
