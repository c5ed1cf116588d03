"""Between sessions: how soon a background session begins, and how soon another one hears what is sent to it.

Both end with the event of the turn that it begins. The references are what a person types: the first message at a new
address, and a message of the same text to the same session, up to the same event, looked for in the same way. What
these turns do is waited for and not measured.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.app.app import App
from bot.sessions.background.delegation import SESSION, Errand
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.log.events import EventType
from channels.messages import Address, Inbound, OutboundKind
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm
from tests.bench.rig import bench
from tests.bot.kit import standing

_ROUNDS: Final = 60
_WARM: Final = 5
_PATIENCE: Final = 20
_TEXT: Final = "When is the meeting?"


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="lgb") as folder:
        spawned, began, sent, heard = [taken * 1e3 for taken in asyncio.run(_measured(Path(folder)))]
    yield Row("spawn_to_first_turn", spawned, "ms", began, ratio_at_most(2))
    yield Row("send_to_delivery", sent, "ms", heard, ratio_at_most(2))


async def _measured(folder: Path) -> list[float]:
    async with bench(folder) as lockgate:
        here = _Sessions(lockgate.app)
        for thread in ("parent", "target"):
            await lockgate.ask(_TEXT, thread)
        found = list[float]()
        for ours, theirs in ((here.spawn, here.begin), (here.send, here.hear)):
            await warm(ours, theirs, rounds=_WARM)
            found += await by_turns_async(ours, theirs, rounds=_ROUNDS)
        return found


def _at(thread: str) -> Address:
    return Address("console", "owner", thread=thread)


@dataclass
class _Sessions:
    """Two conversations of one person, `parent` and `target`."""

    app: App
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    async def spawn(self) -> float:
        """Return the seconds from a spawn to its session's first turn."""
        parent = self.app.session_id(_at("parent"))
        begin = time.perf_counter()
        child = await self.app.spawner.mint_child(standing(sid=parent, turn=""), f"k{next(self._count)}", Errand(_TEXT))
        taken = await self._started(child.sid) - begin
        await self._still(child.sid)
        await self._still(parent)
        return taken

    async def begin(self) -> float:
        """Return the seconds from a person's first message at a new address to its first turn."""
        address = _at(f"new{next(self._count)}")
        begin = time.perf_counter()
        await self._say(address)
        taken = await self._started(self.app.session_id(address)) - begin
        await self._still(self.app.session_id(address))
        return taken

    async def send(self) -> float:
        """Return the seconds from one session's outbox to the turn of another that hears it."""
        target = self.app.session_id(_at("target"))
        before = await self._seq(target)
        begin = time.perf_counter()
        handing = asyncio.create_task(self.app.outbox.deliver((self._parcel(target),)))
        taken = await self._started(target, before) - begin
        await handing
        await self._still(target)
        return taken

    async def hear(self) -> float:
        """Return the seconds from a person's message to the turn that hears it."""
        target = self.app.session_id(_at("target"))
        before = await self._seq(target)
        begin = time.perf_counter()
        saying = asyncio.create_task(self._say(_at("target")))
        taken = await self._started(target, before) - begin
        await saying
        await self._still(target)
        return taken

    async def _say(self, address: Address) -> None:
        await self.app.router.receive(Inbound(address, "console:owner", _TEXT, f"m{next(self._count)}"))

    def _parcel(self, target: str) -> Delivery:
        return Delivery(
            sid=self.app.session_id(_at("parent")),
            key=f"k{next(self._count)}",
            address=str(Address(SESSION, target, "owner", "1")),
            text=_TEXT,
            label=PUBLIC,
            kind=OutboundKind.MESSAGE,
            turn="",
            state=DeliveryState.SENDING,
            created_at=self.app.clock.wall_ms(),
            attempt=1,
            generation=1,
            approved=(),
            hops=1,
        )

    async def _seq(self, sid: str) -> int:
        state = await self.app.store.sessions.state(sid)
        return 0 if state is None else state.seq

    async def _started(self, sid: str, after: int = 0) -> float:
        """Return the moment at which a session's log says that a turn started."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                events = await self.app.store.sessions.events(sid, after=after)
                if any(event.type is EventType.TURN_STARTED for event in events):
                    return time.perf_counter()

    async def _still(self, sid: str) -> None:
        """Wait until nothing waits or runs in a session, or is still to be said."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                state = await self.app.store.sessions.state(sid)
                if state and state.turn is None and not state.waiting_items and not state.undelivered:
                    return
                await asyncio.sleep(0.002)
