"""What every test runs under: asyncio, no network but loopback, no blocking call on the loop, known randomness."""

import gc
import inspect
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import pytest
from blockbuster import blockbuster_ctx
from coverage import Coverage
from hypothesis import HealthCheck, is_hypothesis_test, settings

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


HERE: Final = Path(__file__).parent
UNCOUNTED: Final = (
    *("adversary", "attacks", "conventions", "journeys", "laws", "sim", "store"),
    "bot/access/test_approvals.py",
    "bot/admission/test_admission.py",
    "bot/admission/test_ambient.py",
    "bot/agent/test_calls.py",
    "bot/agent/test_loop.py",
    "bot/agent/test_recollection.py",
    "bot/agent/test_tails.py",
    "bot/api/mcp_server/test_connections.py",
    "bot/api/test_content_rules.py",
    "bot/api/test_entrance.py",
    "bot/api/test_whole_documents.py",
    "bot/app/test_changes_in_force.py",
    "bot/cli/test_fix.py",
    "bot/commands/knowledge/test_memory_proposals.py",
    "bot/commands/test_table.py",
    "bot/delegation/test_delegating.py",
    "bot/delivery/test_interrupted_workflows.py",
    "bot/files/test_races.py",
    "bot/ingress/test_router.py",
    "bot/ingress/test_shared_chats.py",
    "bot/ingress/test_slack.py",
    "bot/mcp/test_processes.py",
    "bot/schedules/test_calendar.py",
    "bot/tools/test_history.py",
    "bot/webhooks/test_cost.py",
    "bot/webhooks/test_trying.py",
    "bot/worker/test_cancel.py",
    "bot/worker/test_damaged.py",
    "bot/worker/test_fair_work.py",
    "bot/worker/test_leases.py",
    "bot/worker/test_limits.py",
    "bot/worker/test_queueing.py",
    "bot/worker/test_worker.py",
    "bot/workflows/test_crashes.py",
    "deploy/test_files.py",
    "scale/test_copies.py",
)
"""Folders and files whose tests count for no threshold: other tests reach their lines, and counting doubles their time.

The files are those that took longest for the fewest lines of their own, by `pytest --cov --cov-context=test`.
"""

MEASURED: Final = pytest.StashKey[set[tuple[Path, str]]]()


def pytest_xdist_auto_num_workers() -> int:
    """Run two tests for each core: half of their time tests wait for processes, servers and moments."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Measure coverage once in a process of pytest-xdist.

    There pytest-cov starts a measurement when it is loaded and another one now. It pauses and saves the second alone,
    so the first would cost as much as all tests take, and tell nothing.
    """
    first = Coverage.current()
    if hasattr(session.config, "workerinput") and first is not None:
        first.stop()


def pytest_sessionfinish() -> None:
    """End the servers that tests shared."""
    SERVERS.close()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Measure coverage where tests of single modules may reach a line or branch for the first time.

    None is measured where tests drive the whole application again and again, or try hundreds of examples. Of a test
    that waits for something and has many cases the first is measured.
    """
    place = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
    measured = item.config.stash.setdefault(MEASURED, set())
    test, function = (item.path, getattr(item, "originalname", item.name)), getattr(item, "obj", None)
    again = inspect.iscoroutinefunction(function) and test in measured
    if place.startswith(UNCOUNTED) or again or is_hypothesis_test(function):
        item.add_marker(pytest.mark.no_cover)
    measured.add(test)


def pytest_collection_finish() -> None:
    """Keep the collector away from the libraries, which stay: looking through them took a tenth of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asyncio alone: redis and the platforms' libraries run on nothing else."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_blocking_calls() -> Iterator[None]:
    """A call of ours that blocks the loop raises BlockingError."""
    with blockbuster_ctx(scanned_modules=["bot", "channels", "lockgate", "policy"]) as blocked:
        # Coverage counts the lines of all threads under one lock.
        blocked.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", "lock_data")
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
