"""A model that makes the calls of a test, and answers inspections by what it is shown."""

import asyncio
from collections.abc import Callable

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from bot.agent.offline import INSPECT
from tests.bot.kit import Reply, Scripted


def last_line(shown: str) -> str:
    """Return the last line that an inspection shows, as the offline model answers it."""
    return shown.rstrip().rpartition("\n")[2].strip()


class Inspecting(Scripted):
    """A scripted model whose replies are for the conversation alone; `shown` keeps what inspections showed it.

    `begun` is set by an inspection, which waits for `wait` if it is given.
    """

    def __init__(
        self, *replies: Reply, answer: Callable[[str], str] = last_line, wait: asyncio.Event | None = None
    ) -> None:
        super().__init__(*replies)
        self.begun = asyncio.Event()
        self._until = wait
        self.shown: list[str] = []
        self.offered: list[ModelRequestParameters] = []
        self._answer = answer

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer an inspection, or make the next step of the conversation."""
        last = messages[-1]
        if isinstance(last, ModelResponse) or last.instructions != INSPECT:
            return await super().request(messages, model_settings, model_request_parameters)
        (only,) = messages
        shown = "\n".join(str(part.content) for part in only.parts if isinstance(part, UserPromptPart))
        self.shown.append(shown)
        self.offered.append(model_request_parameters)
        self.begun.set()
        if self._until is not None:
            await self._until.wait()
        text, usage = self._answer(shown), RequestUsage(input_tokens=len(shown), output_tokens=5)
        return ModelResponse(parts=[TextPart(text)], usage=usage, model_name="scripted", provider_name="scripted")
