"""A thousand chats at once, one of which floods: who waits for how long, and in how much memory.

One chat writes fifty messages before the others write one each. What counts is how long each of the others waits for
its answer: where the flood, or anybody, were served first, the one who waits longest would wait much longer than all
do on average. Served in any fair order they wait from nothing up to the time that all of them take, twice the mean.
The reference is the mean of the same run. Memory is the most that the process holds more than before, without the
store's server.

And a hundred tasks of one person, whose model takes a moment, before another person writes one message: the reference
is what the same message takes while nobody else has anything going.
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

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from channels.messages import Address, Inbound, Outbound
from tests.bench.measure import Row, at_most, ratio_at_most
from tests.bench.rig import InstantModel, Mouth, bench, crowd_config, during

_CHATS: Final = 1000
_FLOOD: Final = 50
_TOGETHER: Final = 16
_WARM: Final = 20
_TASKS: Final = 100
_MOMENT: Final = 0.2
"""Seconds that the slow model takes."""

_FLOODER: Final = "flooder"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        waits, megabytes = asyncio.run(_measured(Path(folder)))
    with TemporaryDirectory(prefix="lgb") as folder:
        beside, alone = asyncio.run(_beside(Path(folder)))
    yield Row("message_beside_hundred_tasks", beside, "s", alone, ratio_at_most(2))
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


class _SlowModel(InstantModel):
    """Takes a moment before it answers."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        await asyncio.sleep(_MOMENT)
        return await super().request(messages, model_settings, model_request_parameters)


async def _beside(folder: Path) -> tuple[float, float]:
    """Return how long a person waits for an answer beside a hundred tasks of another one, and with none, in seconds."""
    ears, parts = _Ears(), Extensions(model=lambda _: _SlowModel())
    config = await asyncio.to_thread(crowd_config, folder, {}, ["console:ann"])

    async def wait(name: str) -> float:
        written = time.perf_counter()
        await app.router.receive(Inbound(Address("console", "ann", thread=name), "console:ann", "When is it?", name))
        async with asyncio.timeout(60):
            while name not in ears.answered:  # noqa: ASYNC110 - the channel tells nobody
                await asyncio.sleep(0.001)
        return ears.answered[name] - written

    async with open_app(config, [ears], {}, parts) as app, during(app.serve()):
        await wait("warm")
        alone = await wait("alone")
        for number in range(_TASKS):
            await app.router.receive(_hello(f"task{number}"))
        return await wait("beside"), alone


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
