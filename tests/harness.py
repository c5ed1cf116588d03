"""A whole application in a temporary directory: real store, real files, a console that writes to a buffer."""

import asyncio
import io
import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.app.plugins import find_plugin
from bot.config.file.source import STORE_VARIABLE
from bot.config.load import load_config
from bot.ingress.router import RouterReceipt
from bot.sessions.log.events import Event
from bot.sessions.models import SessionState, Status
from bot.tools import catalogue
from channels.console import Console
from channels.messages import Address, Inbound
from channels.port import Channel
from tests.servers import SERVERS

HOME = Address("console", "owner")
SETTLED = frozenset({Status.IDLE, Status.AWAITING_INPUT, Status.FAILED})

LOOK_SECONDS: Final = 0.01
"""How long a test waits before it looks again, at first."""
_LONGEST_SECONDS: Final = 0.05


def longer(pause: float) -> float:
    """Return the next pause, in seconds: each look takes time from the processes that the test waits for."""
    return min(1.5 * pause, _LONGEST_SECONDS)


@dataclass
class Person:
    """Somebody typing at one address; `shown` is everything that was said on this console."""

    app: App
    output: io.StringIO
    address: Address = HOME
    account: str = "console:owner"
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def sid(self) -> str:
        return self.app.session_id(self.address)

    @property
    def shown(self) -> str:
        return self.output.getvalue()

    async def say(self, text: str, *, wait: bool = True) -> str:
        """Send a text, wait until the session is settled, and return what was shown meanwhile."""
        before = len(self.shown)
        await self.send(text)
        if wait:
            # A turn takes longer than this.
            await asyncio.sleep(LOOK_SECONDS)
            await self.settled()
        return self.shown[before:]

    async def send(self, text: str, **facts: Any) -> RouterReceipt:  # noqa: ANN401 - the fields of Inbound
        inbound = Inbound(self.address, self.account, text, f"{id(self)}-{next(self._count)}", **facts)
        return await self.app.router.receive(inbound)

    async def settled(self, seconds: float = 60) -> SessionState | None:
        """Wait until nothing waits, runs or is still to be said."""
        pause = LOOK_SECONDS
        async with asyncio.timeout(seconds):
            while True:
                state = await self.app.store.sessions.state(self.sid)
                if state is None:
                    return None
                deliveries = await self.app.store.outbox.deliveries(self.sid)
                here = [entry for entry in deliveries if self.app.outbox.serves(entry.address)]
                undelivered = any(entry.state in {"pending", "sending"} for entry in here)
                if state.status in SETTLED and not state.waiting_items and not undelivered:
                    return state
                await asyncio.sleep(pause)
                pause = longer(pause)

    async def state(self) -> SessionState:
        state = await self.app.store.sessions.state(self.sid)
        assert state is not None
        return state

    async def events(self) -> tuple[Event, ...]:
        return await self.app.store.sessions.events(self.sid, limit=10_000)


@asynccontextmanager
async def running(  # noqa: PLR0913 - what a test may say of an application
    folder: Path,
    config: str = "",
    *,
    parts: Extensions | None = None,
    serve: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
    terminal: bool = False,
    channels: Sequence[Channel] = (),
    embedded: bool = False,
) -> AsyncGenerator[Person]:
    """Open an application on a configuration text in a folder, with its worker running unless told otherwise.

    On a `terminal` answers are shown while they are written. `channels` are those beside the console. Unless its store
    is to be `embedded`, or the environment names one, it is on a server that other tests use before and after, emptied
    in between.
    """
    path = folder / "config.yaml"
    path.write_text(config or "{}\n")
    place = await SERVERS.place(folder / "data", embedded=embedded)
    place |= {name: value for name, value in environment.items() if name == STORE_VARIABLE}
    settings = await asyncio.to_thread(load_config, path, place, catalogue.ARGUMENTS, find_plugin)
    output = io.StringIO()
    served = [Console(output, terminal=terminal), *channels]
    async with open_app(settings, served, environment, parts or Extensions()) as app:
        serving = asyncio.create_task(app.serve()) if serve else None
        try:
            yield Person(app, output)
        finally:
            if serving is not None:
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving
