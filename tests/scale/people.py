"""Names and the configuration of a played installation: its people are let in by command and talk at the console.

Names have one length, so that in the copy of a session each of them can take the place of another.
"""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

from pydantic_ai.models import Model

from bot.agent.offline import OfflineModel
from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.config.model import Config
from bot.sessions.deliveries import DeliveryState
from bot.sessions.models import Status
from bot.tools import catalogue
from channels.messages import Address, Inbound, Outbound
from channels.port import GoneError
from tests.bench.rig import Mouth, during
from tests.people import principal

OWNER: Final = "owner"

_SETTLED: Final = frozenset({Status.IDLE, Status.AWAITING_INPUT, Status.FAILED, Status.ARCHIVED})
_UNSENT: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
_CODE: Final = re.compile(r"code ([2-9a-hj-km-np-z]{8}) ")

SETTINGS: Final = {
    # A question that waits for ever is there at every size.
    "limits": {"approval_minutes": None, "person_messages_per_minute": 100_000},
    "policy": {
        "principals": {OWNER: principal("console:owner")},
        "paired": {"role": "member", "clearance": "INTERNAL"},
        "rules": [
            {
                "id": "an-admin-looks",
                "hook": "PRE_TOOL_CALL",
                "tools": ["write_file"],
                "action": "REQUIRE_APPROVAL",
                "approvers": ["admin"],
            }
        ],
    },
}


def person(number: int) -> str:
    """Return a person's name."""
    return f"p{number:07}"


def thread(number: int) -> str:
    """Return the name of a thread."""
    return f"t{number:07}"


def place(who: str, where: str) -> Address:
    """Return the address of a thread of a person's private chat."""
    return Address("console", who, thread=where)


def written_config(folder: Path) -> Config:
    """Write the configuration of an installation in a folder, and read it."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(SETTINGS))
    return load_config(path, {"LOCKGATE_DATA_DIR": str(folder / "data")}, catalogue.ARGUMENTS)


@dataclass
class Ears(Mouth):
    """A console that hears the last text, and has no thread of these names any more."""

    gone: set[str] = field(default_factory=set[str])
    text: str = ""

    async def send(self, outbound: Outbound) -> str:
        if outbound.address.thread in self.gone:
            raise GoneError("the thread is gone")
        self.text = outbound.text
        return await super().send(outbound)


@dataclass
class Installation:
    """A running application and the people who talk to it."""

    app: App
    ears: Ears
    # Of one length, as the names are.
    _count: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1_000_000))

    async def say(self, who: str, where: str, text: str) -> str:
        """Let a person write something, a command too; return the last text heard once the session has settled."""
        await self.app.router.receive(self._inbound(who, where, text))
        sid = self.app.session_id(place(who, where))
        async with asyncio.timeout(30):
            while not await self._settled(sid):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        return self.ears.text

    async def ask(self, who: str, where: str) -> tuple[float, float]:
        """Ask something; return the seconds until it was accepted, and until the answer was handed to the channel."""
        self.ears.said.clear()
        begin = perf_counter()
        await self.app.router.receive(self._inbound(who, where, "When is it?"))
        accepted = perf_counter() - begin
        async with asyncio.timeout(30):
            await self.ears.said.wait()
            answered = self.ears.moment - begin
            sid = self.app.session_id(place(who, where))
            while await self._unsent(sid):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.002)
        return accepted, answered

    async def let_in(self, who: str) -> None:
        """Let a stranger in, as an admin does."""
        await self.app.router.receive(self._inbound(who, "", "hello"))
        code = _CODE.search(self.ears.text)
        if code is None:
            raise RuntimeError(f"no code was given: {self.ears.text}")
        await self.command(f"/pair approve {code[1]} {who}")

    async def command(self, text: str) -> str:
        """Return the answer to a command of the owner."""
        await self.app.router.receive(self._inbound(OWNER, "", text))
        return self.ears.text

    def _inbound(self, who: str, where: str, text: str) -> Inbound:
        return Inbound(place(who, where), f"console:{who}", text, f"m{id(self)}-{next(self._count)}")

    async def _settled(self, sid: str) -> bool:
        state = await self.app.store.sessions.state(sid)
        if state is None:
            return True
        return state.status in _SETTLED and not state.waiting_items and not await self._unsent(sid)

    async def _unsent(self, sid: str) -> bool:
        return any(one.state in _UNSENT for one in await self.app.store.outbox.deliveries(sid))


@asynccontextmanager
async def installation(
    folder: Path, *, serve: bool = True, model: Callable[[], Model] = OfflineModel
) -> AsyncGenerator[Installation]:
    """Open the application of a folder, with a worker if it is to `serve`."""
    ears, config = Ears(), await asyncio.to_thread(written_config, folder)
    async with open_app(config, [ears], {}, Extensions(model=lambda _: model())) as app:
        running = Installation(app, ears)
        if not serve:
            yield running
            return
        async with during(app.serve()):
            yield running
