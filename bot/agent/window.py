"""How much a model can read at once, estimated: providers count tokens in ways of their own.

Three characters for a token is more tokens than providers count for most texts, so that a context that fits here
fits there. A text in a script that needs more is refused by the provider, in one clear error.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters

from bot.agent.providers import Seat

CHARACTERS: Final = 3
"""Characters of a token, rather too few than too many."""

_MESSAGE: Final = 10
_PICTURE: Final = 1600
"""Tokens of a picture: the providers' count for about the largest size that they do not scale down."""
_SHORT: Final = 200
"""Tokens of a short message and of its frame."""
_STEP: Final = 4
"""The results of the newest step get one part in so many of a window, with any length of the conversation."""
ANSWER: Final = 4096
"""Tokens left free and set aside for the answer, unless the configuration says how long one may be."""


class Messages(list[ModelMessage]):
    """The messages of a context. It is known how large those are that do not change any more.

    So a long conversation is not measured anew for each request: all but the last two stay as they are, unless
    `recount` says otherwise.
    """

    def __init__(self, messages: Iterable[ModelMessage] = (), counted: int = 0, tokens: int = 0) -> None:
        """Take messages; the first `counted` of them are known to have so many `tokens`."""
        super().__init__(messages)
        self._counted = counted
        self._tokens = tokens

    def copied(self) -> "Messages":
        """Return a list of its own, whose last message may be changed while this one's stays as it is."""
        copy = Messages(self, self._counted, self._tokens)
        if copy:
            copy[-1] = replace(copy[-1])
        return copy

    def recount(self) -> None:
        """Measure all of them anew: one that is not the last was replaced."""
        self._counted = self._tokens = 0

    @property
    def tokens(self) -> int:
        """About how many tokens they have."""
        settled = max(len(self) - 2, 0)
        if self._counted > settled:
            self.recount()
        self._tokens += sum(map(_size, self[self._counted : settled]))
        self._counted = settled
        return self._tokens + sum(map(_size, self[self._counted :]))


@dataclass(frozen=True, slots=True)
class Window:
    """A model's window: `tokens` that it can read, None if its size is unknown."""

    tokens: int | None

    @staticmethod
    def of(seat: Seat, refused: int | None = None) -> "Window":
        """Return a model's window, without the room for its answer; at most half of it is left for that.

        The configuration says how large it is, or else the library, which knows most models by name. `refused` is the
        least that the model's provider refused as too large, estimated as requests are.
        """
        said = seat.settings.context_tokens
        size = seat.model.context_window if said is None else said
        tokens = None if size is None else size - min(seat.settings.output_tokens or ANSWER, size // 2)
        below = None if refused is None else refused * 4 // 5
        known = [most for most in (tokens, below) if most is not None]
        return Window(min(known, default=None))

    def room(self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, results: int) -> int | None:
        """Return how many characters each of the next `results` of a step may have, None if unknown."""
        if self.tokens is None:
            return None
        left = self.tokens - estimated(messages, parameters)
        return max(left, self.tokens // _STEP - _step(messages)) * CHARACTERS // results

    def share(self, results: int) -> int | None:
        """Return how many characters each of `results` of a step may have however long the conversation is.

        A recap of the earlier conversation makes room for them. None if unknown.
        """
        return None if self.tokens is None else self.tokens // _STEP * CHARACTERS // results

    def crowded(self, parameters: ModelRequestParameters) -> bool:
        """Say whether tools leave no room for one short message, so that even a new conversation does not help."""
        return self.tokens is not None and estimated((), parameters) + _SHORT > self.tokens

    def holds(self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> bool:
        """Say whether a request fits."""
        return self.tokens is None or estimated(messages, parameters) <= self.tokens


def estimated(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    """Return about how many tokens a request has, rather too many than too few."""
    tools = sum(
        len(tool.name) + len(tool.description or "") + len(json.dumps(tool.parameters_json_schema))
        for tool in parameters.function_tools
    )
    # Models are told only the newest of them.
    said = next((len(message.instructions or "") for message in reversed(messages) if message.kind == "request"), 0)
    together = messages.tokens if isinstance(messages, Messages) else sum(map(_size, messages))
    return together + (said + tools) // CHARACTERS


def most(seat: Seat, messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    """Return about how many tokens a request and its answer have, rather too many than too few."""
    return estimated(messages, parameters) + (seat.settings.output_tokens or ANSWER)


def _step(messages: Sequence[ModelMessage]) -> int:
    """Return about how many tokens the results of the newest step have so far."""
    last = messages[-1] if messages else None
    return _size(last) if isinstance(last, ModelRequest) and isinstance(last.parts[-1], ToolReturnPart) else 0


def _size(message: ModelMessage) -> int:
    return sum(_length(part) for part in message.parts) // CHARACTERS + _MESSAGE


def _length(part: object) -> int:
    held = (getattr(part, name, None) for name in ("content", "args", "tool_name", "signature"))
    return sum(_characters(value) for value in held if value)


def _characters(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_characters, cast("list[object]", value)))
    if isinstance(value, BinaryContent):
        return _PICTURE * CHARACTERS
    return len(value if isinstance(value, str) else str(value))
