"""What tests of webhooks are made of: sessions that a test writes itself, an API, and receivers on loopback."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx2

from bot.access.tokens import ApiCaller
from bot.api.services import ApiServices
from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.programs import api_services, sending_parts
from bot.core.ids import Ids
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import AgentMessage, ToolOutcome, ToolResult, UserMessage
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Claim, Status, Turn, Write
from bot.sessions.webhooks import ProgramWebhook
from bot.tools.web.connection import Connector
from bot.webhooks.keeper import WebhookKeeper, WebhookRequest
from bot.webhooks.sender import WebhookSender
from policy.labels import PUBLIC, Label, parse
from tests.bot.api.kit import MAKER, ApiHost, api_config, served
from tests.harness import running
from tests.sim.receiver import Receiver

SECRET: Final = parse("CONFIDENTIAL~")
CLEARANCE: Final = "INTERNAL~"
_IDS: Final = Ids()


@dataclass
class Written:
    """A session of a program whose turn is the test: it writes events as it likes."""

    app: App
    claim: Claim
    seq: int
    sid: str = field(init=False)

    def __post_init__(self) -> None:
        self.sid = self.claim.sid

    async def write(self, *events: NewEvent) -> list[int]:
        """Write events, and return their numbers."""
        write = Write(_IDS.op(), self.seq, events=events)
        before, self.seq = self.seq, (await self.app.store.sessions.record(self.claim, write)).seq
        return list(range(before + 1, self.seq + 1))

    async def say(self, *texts: str, label: Label = PUBLIC) -> list[int]:
        """Write answers for users."""
        return await self.write(
            *(
                NewEvent("agent", label, AgentMessage(text), visibility=Visibility.USER, admitted=True, turn="t")
                for text in texts
            )
        )

    async def work(self, text: str = "x", label: Label = PUBLIC) -> list[int]:
        """Write a tool's result, which is progress."""
        result = ToolResult("c", "tool", text, ToolOutcome.OK)
        return await self.write(
            NewEvent("tool", label, result, visibility=Visibility.PROGRESS, admitted=True, turn="t")
        )

    async def rise(self, label: Label = SECRET) -> None:
        """Read what is above its program."""
        await self.work("secret", label)


async def begin(app: App, owner: str = "ci", *, label: Label = PUBLIC) -> Written:
    """Begin a session of a program, with a turn that takes its first message."""
    sid, principal = _IDS.op(), f"program:{owner}"
    home = f"api::{owner}:{sid}"
    await app.store.sessions.accept(
        NewItem(sid, "d1", principal, label, SessionMessage("hello"), home, principal, label)
    )
    claim = await app.store.sessions.claim(sid, f"{app.store.sessions.process}.{_IDS.owner()}")
    assert claim is not None
    write = Write(
        _IDS.op(),
        claim.state.seq,
        events=(NewEvent(principal, label, UserMessage("hello"), admitted=True, turn="t", visibility=Visibility.USER),),
        take=1,
        turn=Turn("t", 1, "d1", principal, claim.now),
        status=Status.RUNNING,
    )
    return Written(app, claim, (await app.store.sessions.record(claim, write)).seq)


@dataclass(frozen=True)
class Program:
    """A program with a token, and what it asks of the API."""

    host: ApiHost
    client: httpx2.AsyncClient

    @property
    def app(self) -> App:
        return self.host.app

    async def hook(self, receiver: Receiver | str, **wanted: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Make a webhook, and return it with its secret."""
        url = receiver if isinstance(receiver, str) else receiver.url
        answer = await self.client.post("/v1/webhooks", json={"url": url, **wanted})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def listed(self) -> list[dict[str, Any]]:
        return (await self.client.get("/v1/webhooks")).json()["webhooks"]

    async def works(self) -> bool:
        """Say whether the only webhook takes what it is sent."""
        return not (await self.listed())[0]["failing"]

    async def ended(self) -> bool:
        """Say whether nothing is sent to the only webhook any more."""
        return bool((await self.listed())[0]["disabled"])

    async def nothing_dead(self) -> bool:
        return not await self.dead()

    async def dead(self) -> list[dict[str, Any]]:
        return (await self.client.get("/v1/webhooks/dead")).json()["dead"]


@dataclass(frozen=True)
class Desk:
    """A program with what keeps its webhooks, in a process that serves no HTTP."""

    app: App
    caller: ApiCaller
    services: ApiServices

    @property
    def keeper(self) -> WebhookKeeper:
        return self.services.webhooks

    async def hook(self, here: Receiver, level: Visibility = Visibility.PROGRESS) -> ProgramWebhook:
        """Make a webhook."""
        return (await self.keeper.make(self.caller, self.wanted(here, level))).webhook

    def wanted(self, here: Receiver, level: Visibility = Visibility.PROGRESS) -> WebhookRequest:
        """Return what to ask for a webhook."""
        return WebhookRequest(here.url, level)

    async def noted(self, hook: ProgramWebhook, *sessions: Written) -> None:
        """Wait until it is noted that all of these sessions was sent; nothing more is done for them then."""

        async def all_is() -> bool:
            at = await self.app.store.webhooks.positions(hook.id, tuple(one.sid for one in sessions))
            return {one.sid: one.seq for one in sessions} == {sid: position.seq for sid, position in at.items()}

        await until(all_is)

    async def first(self) -> ProgramWebhook:
        """Return the oldest webhook as it is now."""
        return (await self.keeper.all(self.caller))[0]

    @asynccontextmanager
    async def sending(self, **changes: Any) -> AsyncGenerator[WebhookSender]:  # noqa: ANN401 - the fields of the parts
        """Send for webhooks, with some parts other than an operator has."""
        connector = Connector(self.app.resolve, self.app.config.webhooks.private)
        sender = WebhookSender(replace(sending_parts(self.services, connector), **changes), _IDS.owner())
        sending = asyncio.create_task(sender.serve())
        try:
            yield sender
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending


@asynccontextmanager
async def desk(folder: Path, config: str, *, life: int = 0) -> AsyncGenerator[Desk]:
    """Open an application with a program, whose token lives so long (ms, 0 for ever); nothing sends yet."""
    async with running(folder, config, serve=False) as person:
        app = person.app
        await app.reloader.start(_untold)
        token = await app.token_keeper.create(TokenRequest("ci", Scope.STEER, parse(CLEARANCE), life), MAKER)
        caller = app.tokens.authenticate(token.text)
        assert caller is not None
        yield Desk(app, caller, api_services(app))


async def _untold(_line: str) -> None:
    """Tell nobody."""


def hook_config(*receivers: Receiver, retries: Sequence[int] = (1, 1), **settings: object) -> str:
    """Return a config.yaml whose webhooks may reach these receivers, with quick tries."""
    allowed = [f"127.0.0.1:{one.port}" for one in receivers]
    webhooks = {"unsafe_allow_private_addresses": allowed, "retry_seconds": list(retries), "seconds": 6, **settings}
    return api_config(blocks={"webhooks": webhooks})


@asynccontextmanager
async def program(
    folder: Path, config: str, *, parts: Extensions | None = None, clearance: str = CLEARANCE
) -> AsyncGenerator[Program]:
    """Serve an API with one program, and no worker: the test writes its sessions."""
    async with served(folder, config, parts=parts, works=False) as host:
        token = await host.token("ci", Scope.STEER, clearance)
        async with host.client(token) as client:
            yield Program(host, client)


async def until(look: Callable[[], Awaitable[object]], seconds: float = 60) -> None:
    """Wait until a look finds something."""
    async with asyncio.timeout(seconds):
        while True:
            if await look():
                return
            await asyncio.sleep(0.05)
