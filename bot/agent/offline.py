"""The offline model: deterministic, without key or network, and part of the product (SPEC A).

A line that begins with `!` proposes that tool call with its JSON arguments; several such lines propose
several calls, in order. Anything else gets a short answer that quotes it. It is what demonstrations,
tests and the README's transcript run on.
"""

import json
import re
from typing import Final, cast

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

NAME: Final = "offline"

_CALL: Final = re.compile(r"!([A-Za-z0-9_.-]{1,64})[ \t]*(.*)", re.DOTALL)
_QUOTED: Final = 200
_RESULT: Final = 2_000


class OfflineModel(Model):
    """A model that does what it is told."""

    @property
    def model_name(self) -> str:
        """Its name in configuration and usage."""
        return NAME

    @property
    def system(self) -> str:
        """Its provider's name."""
        return NAME

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,  # noqa: ARG002 - the base class's signature
        model_request_parameters: ModelRequestParameters,  # noqa: ARG002 - as above
    ) -> ModelResponse:
        """Answer the last message; tokens are counted as words, and are exact for this model."""
        last = messages[-1]
        parts = _reply(last) if isinstance(last, ModelRequest) else [TextPart("")]
        usage = RequestUsage(
            input_tokens=sum(_words(message) for message in messages),
            output_tokens=sum(len(part.content.split()) if isinstance(part, TextPart) else 1 for part in parts),
        )
        return ModelResponse(parts=parts, usage=usage, model_name=NAME, provider_name=NAME)


def _reply(request: ModelRequest) -> list[TextPart | ToolCallPart]:
    results = [part for part in request.parts if isinstance(part, ToolReturnPart)]
    if results:
        return [TextPart("\n".join(_told(part) for part in results))]
    text = "".join(
        part.content for part in request.parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)
    )
    if text.startswith("!"):
        return _calls(text)
    return [TextPart(f"You said: {_cut(text, _QUOTED)}")]


def _told(result: ToolReturnPart) -> str:
    """Return a result with its tool's name before it, once: a refusal begins with it already."""
    content = _cut(str(cast("object", result.content)), _RESULT)
    return content if content.startswith(f"{result.tool_name}: ") else f"{result.tool_name}: {content}"


def _calls(text: str) -> list[TextPart | ToolCallPart]:
    calls = list[TextPart | ToolCallPart]()
    for line in text.splitlines():
        match = _CALL.match(line.strip())
        if match is None:
            continue
        name, arguments = match.group(1), match.group(2).strip() or "{}"
        try:
            json.loads(arguments)
        except (ValueError, RecursionError):
            return [TextPart(f"`!{name}` needs JSON arguments, such as `!{name} {{}}`")]
        calls.append(ToolCallPart(name, arguments))
    return calls or [TextPart('a line with a call looks like `!read_file {"path": "public/welcome.md"}`')]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} …"


def _words(message: ModelMessage) -> int:
    parts = [part for part in message.parts if isinstance(part, TextPart | UserPromptPart | ToolReturnPart)]
    return sum(len(str(cast("object", part.content)).split()) for part in parts)
