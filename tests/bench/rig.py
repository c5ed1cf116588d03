"""A whole application for a benchmark: a channel that notes when something is said, and a model without thought."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.app.app import App
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.config.model import Config
from bot.sessions.deliveries import DeliveryState
from bot.sessions.models import SCHEMA
from bot.store.records.form import pack
from bot.store.records.kinds import USAGE
from bot.store.records.names import NAMES
from bot.tools import catalogue
from channels.messages import Address, Inbound, Outbound, Signal
from channels.port import Audience
from tests.people import principal
from tests.sim.slack import Slack

READ: Final = "read the two files"
"""What makes the model propose two calls; anything else is answered at once."""

LEARN: Final = "learn what is said"
"""What makes it propose to learn something."""

PATHS: Final = ("public/welcome.md", "internal/handbook.md")
_UNSETTLED: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
ANSWER: Final = "It is on Tuesday at 9:30 in the big room; the notes are in the shared folder."


class InstantModel(Model):
    """Answers without a thought: the same to everything, after two calls where they are asked for."""

    @property
    def model_name(self) -> str:
        return "instant"

    @property
    def system(self) -> str:
        return "instant"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        last, usage = messages[-1], RequestUsage(input_tokens=100, output_tokens=20)
        asked = {str(part.content) for part in last.parts if isinstance(part, UserPromptPart)}
        if READ in asked:
            calls = [ToolCallPart("read_file", {"path": path}) for path in PATHS]
            return ModelResponse(parts=calls, usage=usage, model_name="instant")
        if LEARN in asked:
            learns = ToolCallPart("memory", {"action": "learn", "text": ANSWER})
            return ModelResponse(parts=[learns], usage=usage, model_name="instant")
        return ModelResponse(parts=[TextPart(ANSWER)], usage=usage, model_name="instant")


@dataclass
class Mouth:
    """A channel on which nothing is shown; `said` is set, and the moment kept, when something would be."""

    name: str = "console"
    marks_repeats: bool = True
    marks_untrusted: bool = True
    previews: bool = False
    said: asyncio.Event = field(default_factory=asyncio.Event)
    moment: float = 0.0

    async def send(self, outbound: Outbound) -> str:
        self.moment = time.perf_counter()
        self.said.set()
        return ""

    async def preview(self, outbound: Outbound) -> None:
        pass

    async def signal(self, address: Address, signal: Signal) -> None:
        pass

    async def audience(self, address: Address) -> Audience:
        return Audience.of(f"{self.name}:{address.chat}")


@dataclass
class Bench:
    """A running application and one person who talks to it, in as many threads as are wanted."""

    app: App
    mouth: Mouth
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    async def ask(self, text: str, thread: str) -> float:
        """Say something; return the seconds until the answer was handed to the channel, and wait for its receipt."""
        address = Address(self.mouth.name, "owner", thread=thread)
        self.mouth.said.clear()
        begin = time.perf_counter()
        await self.app.router.receive(Inbound(address, "console:owner", text, f"m{next(self._count)}"))
        async with asyncio.timeout(20):
            await self.mouth.said.wait()
            taken = self.mouth.moment - begin
            sid = self.app.session_id(address)
            # The receipt is written after the answer was handed over, and nobody is told of it.
            while any(entry.state in _UNSETTLED for entry in await self.app.store.outbox.deliveries(sid)):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return taken


def crowd_config(folder: Path, channels: dict[str, object], accounts: list[str], **more: object) -> Config:
    """Return a configuration for people with an account each on these channels; `more` are sections besides."""
    owner = principal("console:owner")
    crowd = {
        f"person{number}": principal(account, role="member", clearance="INTERNAL")
        for number, account in enumerate(accounts)
    }
    policy = {
        "principals": {"owner": owner, **crowd},
        "channels": {name: {"classification": "INTERNAL"} for name in ("console", *channels)},
        "recipients": {},
    }
    return _config(folder, {"channels": channels, "policy": policy, **more})


def _config(folder: Path, settings: dict[str, object]) -> Config:
    path = folder / "config.yaml"
    path.write_text(json.dumps(settings))
    return load_config(path, {"LOCKGATE_DATA_DIR": str(folder / "data")}, catalogue.ARGUMENTS)


@asynccontextmanager
async def during(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Let this go on while the block runs."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def bolt(server: Slack, listener: Callable[..., Awaitable[None]]) -> AsyncGenerator[None]:
    """Have a listener hear the messages of a played Slack by the library alone."""
    client = AsyncWebClient(server.bot.value, base_url=server.api)
    # The library leaves its signatures untyped.
    app = cast("Any", AsyncApp(client=client))
    app.event("message")(listener)
    handler = AsyncSocketModeHandler(app, server.app_token, web_client=client)
    await handler.connect_async()
    try:
        yield
    finally:
        await handler.close_async()


@asynccontextmanager
async def bench(
    folder: Path, store: str = "", mouth: Mouth | None = None, model: Callable[[], Model] = InstantModel
) -> AsyncGenerator[Bench]:
    """Open an application with its worker in a folder, on the store at an address or on one of its own."""
    config, mouth = _config(folder, {"store": {"url": store}} if store else {}), mouth or Mouth()
    async with open_app(config, [mouth], {}, Extensions(model=lambda _: model())) as app, during(app.serve()):
        yield Bench(app, mouth)


def idle_state(who: str, at: int, label: str, *, home: str = "console::owner:", seq: int = 8) -> dict[str, str | bytes]:
    """Return the stored fields of the record of an idle session."""
    used = pack(USAGE, {"requests": 1, "input_tokens": 10, "output_tokens": 20})
    fields = {"generation": 1, "generation_seq": 1, "seq": seq, "created": at, "updated": at, "position": 1}
    fields |= {"version": SCHEMA, "fence": 1, "last_delivery": 1, "audit_seq": 4}
    words = {"status": "idle", "taint": label, "creation": "PUBLIC", "home": home, "principal": who}
    words |= {"inbox_label": "PUBLIC", "audit_hash": "h" * 43}
    every: dict[str, str | bytes] = {**{name: str(number) for name, number in fields.items()}, **words, "usage": used}
    return {NAMES[name]: value for name, value in every.items()}
