"""A store that is full, read-only or gone for a while: what was accepted is kept, what cannot be is refused in words.

When the store is well again everything goes on by itself: nobody does more than a platform, which delivers again what
was not taken.
"""

import asyncio
import os
import re
import resource
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from bot.app.app import App
from bot.core.errors import StoreError
from bot.store.servers.embedded_server import Supervisor
from tests.chaos.installation import CHATS, HEALED_SECONDS, installed
from tests.chaos.storm_laws import Checked
from tests.chaos.storm_plan import LEASE_SECONDS
from tests.folders import quick_folder
from tests.store.world import command, pid_of

pytestmark = pytest.mark.anyio

AWAY_SECONDS: Final = float(os.environ.get("LOCKGATE_CHAOS_AWAY_SECONDS", "30"))
"""How long a store hangs; the variable shortens it."""

_MEGABYTE: Final = 1 << 20

Fault = Callable[[App], AbstractAsyncContextManager[None]]


async def outlived(folder: Path, fault: Fault, sentence: str, url: str = "") -> Checked:
    """Let a fault come in the middle of turns; return what is left when it is over and all has healed.

    What comes meanwhile is refused with this sentence and with a next step; a store that only hangs may still take it.
    """
    async with installed(folder, url) as made:
        for chat in CHATS:
            await made.say(chat, 0)
        await made.running()
        async with fault(made.app):
            told = await asyncio.gather(*(made.say(chat, 1) for chat in CHATS), return_exceptions=True)
            refused = [error for error in told if error is not None]
            assert refused or fault is hanging
            for error in refused:
                assert isinstance(error, StoreError), error
                assert sentence in str(error)
                assert error.next_step
            # What runs is ended meanwhile: it cannot write, and its leases run out.
            await asyncio.sleep(1.5 * LEASE_SECONDS)
        async with asyncio.timeout(HEALED_SECONDS):
            for chat in (one for one, error in zip(CHATS, told, strict=True) if error is not None):
                while True:
                    with suppress(StoreError):
                        await made.say(chat, 1)
                        break
                    await asyncio.sleep(0.1)
        await made.healed()
        return await made.checked()


def configured(name: str, bad: int, good: int) -> Fault:
    """Return the fault of a server that is configured badly for a while."""

    @asynccontextmanager
    async def fault(app: App) -> AsyncGenerator[None]:
        await command(app.store, "CONFIG", "SET", name, bad)
        yield
        await command(app.store, "CONFIG", "SET", name, good)

    return fault


@asynccontextmanager
async def read_only(app: App) -> AsyncGenerator[None]:
    await command(app.store, "REPLICAOF", "127.0.0.1", 1)
    yield
    await command(app.store, "REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def hanging(app: App) -> AsyncGenerator[None]:
    (told,) = re.findall(r"process_id:(\d+)", str(await command(app.store, "INFO", "server")))
    pid, over = int(told), asyncio.Event()

    def end() -> None:
        os.kill(pid, signal.SIGCONT)
        over.set()

    os.kill(pid, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(AWAY_SECONDS, end)
    yield
    await over.wait()


@pytest.mark.parametrize(
    "fault, sentence",
    [
        (configured("maxmemory", 1, 0), "memory limit is reached"),
        (read_only, "read-only replica"),
        (configured("min-replicas-to-write", 1, 0), "too few replicas"),
        (hanging, "not answer"),
    ],
    ids=["memory", "read_only", "replicas", "gone"],
)
async def test_a_store_that_is_unwell_for_a_while_loses_nothing(tmp_path: Path, fault: Fault, sentence: str) -> None:
    found = await outlived(tmp_path, fault, sentence)
    assert found.violations == []
    assert (found.answered, found.given_up) == (2 * len(CHATS), 0)


async def test_a_store_of_ones_own_that_hangs_loses_nothing(tmp_path: Path) -> None:
    """Nobody starts it again; what it was asked before is done once it goes on, and asked again meanwhile."""
    supervisor = Supervisor(tmp_path / "server")
    await supervisor.attach()
    try:
        found = await outlived(tmp_path, hanging, "the store does not answer", supervisor.url)
    finally:
        await supervisor.detach()
    assert found.violations == []
    assert (found.answered, found.given_up) == (2 * len(CHATS), 0)


@contextmanager
def small_disk() -> Generator[Path | None]:
    """Mount a small disk for a while, None where that is not allowed."""
    with quick_folder() as folder:
        size = f"size={8 * _MEGABYTE}"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=False).returncode == 0
        try:
            yield Path(folder) if mounted else None
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    """Leave no byte on a disk."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


async def test_a_disk_that_is_full_for_a_while_loses_nothing() -> None:
    with small_disk() as disk:
        if disk is None:
            pytest.skip("no disk may be mounted here; files that may not grow are tried all the same")

        @asynccontextmanager
        async def full(_app: App) -> AsyncGenerator[None]:
            await asyncio.to_thread(fill, disk)
            yield
            await asyncio.to_thread((disk / "filler").unlink)

        found = await outlived(disk, full, "is full")
    assert found.violations == []
    assert (found.answered, found.given_up) == (2 * len(CHATS), 0)


async def test_a_server_whose_files_may_not_grow_is_started_again(tmp_path: Path) -> None:
    """It ends at the next write. What takes its place may write, so that nobody is refused for long."""
    async with installed(tmp_path) as made:
        for chat in CHATS:
            await made.say(chat, 0)
        await made.running()
        pid = await asyncio.to_thread(pid_of, made.app.store)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        for chat in CHATS:
            await made.say(chat, 1)
        await made.healed()
        assert await asyncio.to_thread(pid_of, made.app.store) != pid
        found = await made.checked()
    assert found.violations == []
    assert (found.answered, found.given_up) == (2 * len(CHATS), 0)
