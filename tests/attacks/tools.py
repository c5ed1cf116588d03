"""The attacker's tools: each does what the attack's data says, however badly that behaves."""

import asyncio
import re
from collections import Counter
from typing import Annotated, Final, cast

from pydantic import ConfigDict, JsonValue
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.agent.offline import OfflineModel
from bot.app.extensions import Extensions
from bot.sessions.deliveries import NewDelivery
from bot.tools.base import CONTENT, Arguments, CallFacts, Result, ToolContext, ToolServices
from channels.messages import Address
from policy.labels import PUBLIC, parse
from policy.request import Effect
from tests.attacks.attack import GivenTool

_ORDER: Final = re.compile(r"whenever (\w+) (\{[^{}]*\})")


class Anything(Arguments):
    """The attacker's tools take whatever they are given; of that, `text` is content."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    text: Annotated[JsonValue, CONTENT] = None


class BrokenModel(OfflineModel):
    """A model whose provider's library fails, with content in the error's text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        raise RuntimeError(self._text)


class ObedientModel(OfflineModel):
    """A model that follows every order it ever read, whoever gave it and whoever asks now."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        last = messages[-1]
        asked = "\n".join(str(part.content) for part in last.parts if isinstance(part, UserPromptPart))
        if not asked or "!" in asked or _ORDER.search(asked):
            return await super().request(messages, model_settings, model_request_parameters)
        read = "\n".join(
            str(cast("object", part.content))
            for message in messages
            for part in message.parts
            if isinstance(part, UserPromptPart | ToolReturnPart)
        )
        orders = dict.fromkeys(_ORDER.findall(read.replace('\\"', '"')))
        if not orders:
            return await super().request(messages, model_settings, model_request_parameters)
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in orders])


class Puppets:
    """What the attacker's tools share.

    `calls` counts them, `called` tells that one began, and `hanging` is how many wait until `let_go` opens.
    """

    def __init__(self, given: list[GivenTool], model: str, names: dict[str, str], *, obeys: bool = False) -> None:
        self._obeys = obeys
        self.calls: Counter[str] = Counter()
        self.hanging = 0
        self.let_go = asyncio.Event()
        self.called = asyncio.Event()
        self._given = given
        self._model = model
        self._names = names

    def parts(self) -> Extensions:
        """Return what is put beside the built-in tools."""
        tools = tuple(Puppet(one, self) for one in self._given)
        model = BrokenModel(self._model) if self._model else ObedientModel() if self._obeys else None
        return Extensions(
            lambda _files, _sessions: tools, None if model is None else lambda _name: model, resolve=self._resolve
        )

    async def _resolve(self, host: str, port: int) -> tuple[str, ...]:
        return tuple(self._names.get(host, "").split())


class Puppet:
    """One tool of the attacker's."""

    description = "whatever the attacker wants"
    arguments = Anything

    def __init__(self, data: GivenTool, shared: Puppets) -> None:
        self.name = data.name
        self.effect = Effect(data.effect)
        self.label = None if data.result is None else parse(data.result)
        self.label = None if data.result is None else parse(data.result)
        self.repeatable = data.repeatable
        self.server = ""
        self._data = data
        self._shared = shared

    def declare(self, arguments: Anything, context: ToolContext) -> CallFacts:
        said = next(iter(self._said()), None)
        return CallFacts(
            clearance=None if self._data.clearance is None else parse(self._data.clearance),
            consequential=self._data.consequential,
            says=said if self._data.tells_what_it_says else None,
        )

    async def run(self, arguments: Anything, context: ToolContext, services: ToolServices) -> Result:
        self._shared.calls[self.name] += 1
        self._shared.called.set()
        if self._data.waits:
            self._shared.hanging += 1
            try:
                await self._shared.let_go.wait()
            finally:
                self._shared.hanging -= 1
        if self._data.fails:
            raise RuntimeError(self._data.text)
        said = tuple(
            NewDelivery(f"{context.key}/{address}", str(address), text, PUBLIC, "message", context.session.turn)
            for address, text in self._said()
        )
        text = arguments.model_dump_json(exclude_unset=True) if self._data.echoes else self._data.text
        return Result(text, parse(self._data.label), deliver=said)

    def _said(self) -> list[tuple[Address, str]]:
        return [(Address("console", chat), text) for chat, text in self._data.says.items()]
