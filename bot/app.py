"""The composition root: the one place where the parts are made and given to one another.

`open_app` starts or reaches the store and builds everything on it; `App.serve` runs the worker. What needs
pydantic-ai is imported when serving begins, off the event loop, so that a prompt need not wait for it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bot import audit
from bot.authorize import Caller
from bot.clock import Clock, SystemClock
from bot.commands.base import CommandContext
from bot.config.model import Config
from bot.errors import StoreError
from bot.gate import Gate
from bot.ids import Ids, session_id
from bot.lease import LeaseKeeper
from bot.outbox import Outbox
from bot.rate import RateLimiter
from bot.router import Router
from bot.seed import FILES, WORKSPACES, seed
from bot.sessions.port import SessionStore
from bot.sessions.values import AuditRecord
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.tools import catalogue
from bot.tools.base import Tool
from bot.tools.labelled_files import FileRoot
from channels.base import Audience, Channel
from channels.message import Address

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from bot.store.redis_store import RedisStore
    from bot.worker import Worker

AUDIT_KEY_VARIABLE: Final = "LOCKGATE_AUDIT_KEY"
SESSION_KEY_VARIABLE: Final = "LOCKGATE_SESSION_KEY"

_ANCHOR_SECONDS: Final = 10.0
_SWEEP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Secrets:
    """The installation's own secrets: `audit` chains the records, `session` makes session ids."""

    audit: bytes
    session: bytes

    @staticmethod
    def load(config: Config, environment: Mapping[str, str]) -> "Secrets":
        """Return them: from the environment, else from files in the data directory, made at need.

        Raises OperatorError: one of them cannot be read or made.
        """
        folder = config.data_dir / "keys"

        def secret(variable: str, name: str) -> bytes:
            written = environment.get(variable)
            return audit.parse_key(written) if written else audit.load_or_create_key(folder / name)

        return Secrets(secret(AUDIT_KEY_VARIABLE, "audit"), secret(SESSION_KEY_VARIABLE, "session"))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a developer adds: tools beside the built-in ones, and the model behind a name."""

    tools: Callable[[FileRoot, SessionStore], tuple[Tool, ...]] = lambda _files, _sessions: ()
    model: "Callable[[str], Model] | None" = None


class App:
    """The running application: what the command line and, later, the API and the pages work with."""

    def __init__(
        self,
        config: Config,
        secrets: Secrets,
        store: "RedisStore",
        channels: Sequence[Channel],
        clock: Clock,
        parts: "Parts",
    ) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self.ids = Ids()
        self.anchors = audit.AnchorFile(config.data_dir / "anchors", secrets.audit)
        self.files = FileRoot(config.data_dir / FILES, config.data_dir / WORKSPACES, config.policy.top)
        self._secrets = secrets
        self._parts = parts
        self._channels = {channel.name: channel for channel in channels}
        self._simulations = RateLimiter(clock, config.limits.simulations_per_minute)
        self._serving: Worker | None = None
        tools = (*catalogue.built_in(self.files, store, self._simulations), *parts.tools(self.files, store))
        self.gate = Gate(config.policy, tools, config.model.name, self._audience)
        self.outbox = Outbox(store, store, self._channels, self.gate, store.process)
        self.router = Router(
            store=store,
            audit=store,
            gate=self.gate,
            outbox=self.outbox,
            clock=clock,
            context=self.command_context,
            session_id=self.session_id,
            longest=config.limits.message_characters,
        )

    def session_id(self, address: Address) -> str:
        """Return the id of the session that belongs to an address."""
        return session_id(self._secrets.session, str(address), "")

    def command_context(self, caller: Caller, address: Address, sid: str) -> CommandContext:
        """Return what a command of this caller at this address may use."""
        return CommandContext(
            caller=caller,
            address=address,
            sid=sid,
            store=self.store,
            gate=self.gate,
            files=self.files,
            ids=self.ids,
            now=self.clock.wall_ms(),
            simulations=self._simulations,
            interrupt=self._interrupt,
        )

    async def verify(self, chain: str) -> audit.Intact | audit.Broken:
        """Check an audit chain against the store's head and the newest anchor."""
        records = [record async for record in self.records(chain)]
        anchor = (await asyncio.to_thread(self.anchors.heads)).get(chain, audit.EMPTY)
        return audit.verify(chain, records, await self.store.head(chain), anchor, self._secrets.audit)

    async def records(self, chain: str, after: int = 0) -> AsyncIterator[AuditRecord]:
        """Walk a chain's records with n > `after`, oldest first."""
        while page := await self.store.records(chain, after=after):
            for record in page:
                yield record
            after = page[-1].n

    async def anchor(self) -> None:
        """Keep the heads of all audit chains outside the store."""
        heads = {chain: head async for chain, head in self.store.heads()}
        await asyncio.to_thread(self.anchors.record, heads)

    async def serve(self) -> None:
        """Run the worker and the anchoring until cancelled."""
        await asyncio.to_thread(import_module, "bot.worker")
        keeper = LeaseKeeper(self._open_own_store, self.config.store.lease_seconds)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._anchoring())
                self._serving = self._worker(keeper)
                tasks.create_task(self._serving.serve())
        finally:
            self._serving = None
            await keeper.close()

    def _interrupt(self, sid: str) -> None:
        if self._serving is not None:
            self._serving.interrupt(sid)

    async def _anchoring(self) -> None:
        while True:
            await asyncio.sleep(_ANCHOR_SECONDS)
            try:
                await self.anchor()
            except StoreError:
                # The store is away; the heads are anchored when it is back.
                continue

    def _worker(self, keeper: LeaseKeeper) -> "Worker":
        from bot.agent.calls import Calls
        from bot.agent.loop import Agent
        from bot.agent.models import Asker, make
        from bot.endings import Endings
        from bot.worker import Worker

        model = self.config.model
        limits = self.config.limits
        agent = Agent(
            Asker((self._parts.model or make)(model.name), model.instructions, self.gate.tools),
            self.gate,
            Calls(self.gate, self.outbox),
            limits.model_steps,
        )
        return Worker(
            store=self.store,
            wake=self.store,
            gate=self.gate,
            agent=agent,
            endings=Endings(self.gate, self.ids, limits.approval_minutes * 60_000),
            outbox=self.outbox,
            keeper=keeper,
            ids=self.ids,
            interval=_SWEEP_SECONDS,
        )

    async def _audience(self, address: Address) -> Audience:
        """Ask the channel of an address who reads there; one that this process does not serve cannot tell.

        Raises KeyError: there is no such channel here.
        """
        return await self._channels[address.channel].audience(address)

    @asynccontextmanager
    async def _open_own_store(self) -> AsyncGenerator["RedisStore"]:
        store = await _store(self.config, self._secrets, self.clock)
        try:
            yield store
        finally:
            await store.close()


@asynccontextmanager
async def open_app(
    config: Config,
    channels: Sequence[Channel],
    environment: Mapping[str, str] = os.environ,
    parts: Parts = Parts(),
) -> AsyncGenerator[App]:
    """Open the application on a configuration and the channels of this process, and close it in the end.

    Raises OperatorError: the data directory, its secrets or the store cannot be used.
    """
    await asyncio.to_thread(seed, config.data_dir)
    secrets = await asyncio.to_thread(Secrets.load, config, environment)
    clock = SystemClock()
    store = await _store(config, secrets, clock)
    try:
        app = App(config, secrets, store, channels, clock, parts)
        try:
            yield app
        finally:
            await app.anchor()
    finally:
        await store.close()


async def _store(config: Config, secrets: Secrets, clock: Clock) -> "RedisStore":
    lease = config.store.lease_seconds * 1000
    options = StoreOptions(lease_ms=lease, send_lease_ms=lease, inbox_limit=config.limits.inbox_items)
    return await open_store(
        audit_key=secrets.audit, data=config.data_dir, url=config.store.url or "", options=options, clock=clock
    )
