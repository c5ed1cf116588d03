"""A whole application for a benchmark: a channel that notes when something is said, and a model without thought."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.app import App, Parts, open_app
from bot.config.load import load_config
from bot.sessions.deliveries import DeliveryState
from bot.tools import catalogue
from channels.base import Audience
from channels.message import Address, Inbound, Outbound, Signal

READ: Final = "read the two files"
"""What makes the model propose two calls; anything else is answered at once."""

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
        model_settings: ModelSettings | None,  # noqa: ARG002 - the base class's signature
        model_request_parameters: ModelRequestParameters,  # noqa: ARG002 - as above
    ) -> ModelResponse:
        last, usage = messages[-1], RequestUsage(input_tokens=100, output_tokens=20)
        if isinstance(last, ModelRequest) and any(_asks(part) for part in last.parts):
            calls = [ToolCallPart("read_file", {"path": path}) for path in PATHS]
            return ModelResponse(parts=calls, usage=usage, model_name="instant")
        return ModelResponse(parts=[TextPart(ANSWER)], usage=usage, model_name="instant")


def _asks(part: object) -> bool:
    return isinstance(part, UserPromptPart) and part.content == READ and not isinstance(part, ToolReturnPart)


@dataclass
class Mouth:
    """A channel on which nothing is shown; `said` is set, and the moment kept, when something would be."""

    name: str = "console"
    marks_repeats: bool = True
    previews: bool = False
    said: asyncio.Event = field(default_factory=asyncio.Event)
    moment: float = 0.0

    async def send(self, outbound: Outbound) -> str:  # noqa: ARG002 - the port's signature
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
            while any(entry.state in _UNSETTLED for entry in await self.app.store.deliveries(sid)):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return taken


@asynccontextmanager
async def bench(folder: Path, store: str = "") -> AsyncGenerator[Bench]:
    """Open an application with its worker in a folder, on the store at an address or on one of its own."""
    path = folder / "config.yaml"
    path.write_text(f"store: {{url: '{store}'}}\n" if store else "{}\n")
    settings = load_config(path, {"LOCKGATE_DATA_DIR": str(folder / "data")}, catalogue.NAMES)
    mouth = Mouth()
    async with open_app(settings, [mouth], {}, Parts(model=lambda _: InstantModel())) as app:
        serving = asyncio.create_task(app.serve())
        try:
            yield Bench(app, mouth)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
