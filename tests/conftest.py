"""What every test runs under: asyncio, no network but loopback, no blocking call on the loop, known randomness."""

import gc
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

from tests.servers import SERVERS

P = ParamSpec("P")
R = TypeVar("R")

settings.register_profile(
    "check",
    derandomize=True,  # the same on every machine: a landing does not depend on luck, `poe fuzz` finds new examples
    deadline=None,  # two cores, shared with other tests
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fuzz", parent=settings.get_profile("check"), derandomize=False, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))


gc.disable()  # until all tests are collected, see `pytest_collection_finish`


def pytest_xdist_auto_num_workers() -> int:
    """Run two tests for each core: half of their time tests wait for processes, servers and moments."""
    return 2 * (os.cpu_count() or 1)


def pytest_sessionfinish() -> None:
    """End the servers that tests shared."""
    SERVERS.close()


def pytest_collection_finish() -> None:
    """Keep the collector away from the libraries and the tests, which stay: looking through them takes long."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asyncio alone: redis and the platforms' libraries run on nothing else."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_blocking_calls() -> Iterator[None]:
    """A call of ours that blocks the loop raises BlockingError."""
    with blockbuster_ctx(scanned_modules=["bot", "channels", "lockgate", "policy"]):
        yield


@pytest.fixture(autouse=True)
def stores_end_with_their_test() -> Iterator[None]:
    """No test finds in a store that it shares what another left."""
    yield
    SERVERS.release()


@pytest.fixture(autouse=True)
def no_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name but this machine's own is looked up; pytest-socket refuses the connections, not the questions."""
    monkeypatch.setattr(socket, "getaddrinfo", _only_local(socket.getaddrinfo))


def _only_local(lookup: Callable[P, R]) -> Callable[P, R]:
    def local(*args: P.args, **named: P.kwargs) -> R:
        host = named.get("host", args[0] if args else None)
        name = host.decode() if isinstance(host, bytes) else host
        if name not in {None, "", "localhost"} and not _is_address(str(name)):
            raise OSError(f"a test tried to look up `{name}`")
        return lookup(*args, **named)

    return local


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
