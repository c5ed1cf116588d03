"""A thousand chats at once, one of which floods: who waits for how long, and in how much memory.

One chat writes fifty messages before the others write one each. What counts is how long each of the others waits for
its answer: where the flood, or anybody, were served first, the one who waits longest would wait much longer than all
do on average. Served in any fair order they wait from nothing up to the time that all of them take, twice the mean.
The reference is the mean of the same run. Memory is the most that the process holds more than before, without the
store's server.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Final

from bot.app.app import App
from channels.messages import Address, Inbound, Outbound
from tests.bench.measure import Row, at_most, ratio_at_most
from tests.bench.rig import Mouth, bench

_CHATS: Final = 1000
_FLOOD: Final = 50
_TOGETHER: Final = 16
_WARM: Final = 20
_FLOODER: Final = "flooder"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        waits, megabytes = asyncio.run(_measured(Path(folder)))
    yield Row("thousand_chats_longest_wait", max(waits), "s", mean(waits), ratio_at_most(3))
    yield Row("thousand_chats_memory", megabytes, "MB", None, at_most(64))


@dataclass
class _Ears(Mouth):
    """It notes when each chat was answered first."""

    answered: dict[str, float] = field(default_factory=dict[str, float])

    async def send(self, outbound: Outbound) -> str:
        receipt = await super().send(outbound)
        self.answered.setdefault(outbound.address.thread, self.moment)
        return receipt


async def _measured(folder: Path) -> tuple[list[float], float]:
    """Return how long each chat but the flood waited for its first answer, in seconds, and the memory in MB."""
    ears = _Ears()
    async with bench(folder, mouth=ears) as lockgate:
        app = lockgate.app
        await _all(app, ears, [f"warm{number}" for number in range(_WARM)])
        before = _resident()
        peak = asyncio.create_task(_peak())
        for number in range(_FLOOD):
            await app.router.receive(_hello(_FLOODER, number))
        written = await _all(app, ears, [f"chat{number}" for number in range(_CHATS - 1)])
        waits = [ears.answered[chat] - moment for chat, moment in written.items()]
        peak.cancel()
        return waits, await peak - before


async def _all(app: App, ears: _Ears, chats: list[str]) -> dict[str, float]:
    """Let each chat write, and wait until all are answered; return when each was written."""
    written, waiting = dict[str, float](), iter(chats)

    async def write() -> None:
        for chat in waiting:
            written[chat] = time.perf_counter()
            await app.router.receive(_hello(chat))

    async with asyncio.timeout(180):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_TOGETHER):
                tasks.create_task(write())
        while not written.keys() <= ears.answered.keys():  # noqa: ASYNC110 - the channel tells nobody
            await asyncio.sleep(0.01)
    return written


def _hello(chat: str, number: int = 0) -> Inbound:
    return Inbound(Address("console", "owner", thread=chat), "console:owner", "When is it?", f"{chat}-{number}")


async def _peak() -> float:
    """Look at the memory until cancelled; return the most of it, in MB."""
    most = 0.0
    with suppress(asyncio.CancelledError):
        while True:
            most = max(most, _resident())
            await asyncio.sleep(0.02)
    return most


def _resident() -> float:
    """Return how much memory this process holds, in MB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("this system does not tell how much memory a process holds")
