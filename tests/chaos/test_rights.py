"""A duty of which one process has each at a time moves within three seconds when its process dies, hangs or is cut off.

The one that hung or was cut off does not use it any more from the moment at which another process has it.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

from bot.core.clock import SystemClock
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.log.events import Visibility
from bot.sessions.webhooks import ProgramWebhook
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from tests.chaos.fault_proxy import FaultProxy, fault_proxy
from tests.chaos.right_holder import DUTIES
from tests.store.world import KEY, fresh, served

pytestmark = pytest.mark.anyio

MOVED_SECONDS: Final = 3.0
_ROOT: Final = Path(__file__).parents[2]
_CLOCK: Final = SystemClock()


class Fault(StrEnum):
    """What becomes of the process that has the duty."""

    KILLED = "killed"
    STOPPED = "stopped"
    CUT_OFF = "cut off"


@dataclass
class Holder:
    """A process that wants a duty, and the moments at which it could use it."""

    process: asyncio.subprocess.Process
    moments: list[float] = field(default_factory=list[float])
    wants: asyncio.Event = field(default_factory=asyncio.Event)
    has: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            moment, word = line.split()
            if word == b"wants":
                self.wants.set()
                continue
            self.moments.append(float(moment))
            self.has.set()


@asynccontextmanager
async def holder(url: str, duty: str, name: str) -> AsyncGenerator[Holder]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaos.right_holder", url, duty, name, cwd=_ROOT, stdout=asyncio.subprocess.PIPE
    )
    made = Holder(process)
    reading = asyncio.create_task(made.read())
    try:
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


@asynccontextmanager
async def proxied(folder: Path) -> AsyncGenerator[tuple[RedisStore, FaultProxy, str]]:
    """Give a store, a way to it that can be cut, and its address."""
    serving = served()
    supervisor = await asyncio.to_thread(next, serving)
    try:
        store = await open_store(audit_key=KEY, url=supervisor.url)
        async with fault_proxy(folder / "proxy", supervisor.files.socket) as proxy:
            yield store, proxy, supervisor.url
        await store.close()
    finally:
        await asyncio.to_thread(lambda: next(serving, None))


async def prepared(store: RedisStore, duty: str) -> None:
    """Make what the duty is about."""
    if duty == "webhook":
        await store.webhooks.add(ProgramWebhook("w1", "program:ci", "https://example.com/", Visibility.USER), 5)
    if duty == "timer":
        await store.schedules.set_timer(Timer(TimerKind.REMIND, "s1", 1))


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("duty", list(DUTIES))
async def test_a_duty_moves_within_three_seconds(tmp_path: Path, duty: str, fault: Fault) -> None:
    name = fresh()
    async with proxied(tmp_path) as (store, proxy, url):
        await prepared(store, duty)
        async with holder(proxy.url, duty, name) as first:
            await first.has.wait()
            async with holder(url, duty, name) as second:
                await second.wants.wait()
                # It waits for its chance; a process that begins sweeps at once.
                await asyncio.sleep(0.5)
                second.has.clear()
                began = _CLOCK.monotonic()
                match fault:
                    case Fault.KILLED:
                        first.process.kill()
                    case Fault.STOPPED:
                        first.process.send_signal(signal.SIGSTOP)
                    case Fault.CUT_OFF:
                        proxy.silent = True
                async with asyncio.timeout(20):
                    while not any(moment > began for moment in second.moments):
                        second.has.clear()
                        await second.has.wait()
                moved = next(moment for moment in second.moments if moment > began)
                print(f"{duty}, {fault}: moved after {moved - began:.2f} s")
                assert moved - began <= MOVED_SECONDS
                if fault is Fault.STOPPED:
                    first.process.send_signal(signal.SIGCONT)
                await asyncio.sleep(0.5)
                # The work of a timer, and of a sweep, may be done twice.
                if duty in {"right", "webhook"}:
                    assert not [moment for moment in first.moments if moment >= moved]
