"""The model's context, assembled from the log of the session's generation and from nothing else.

The same functions append the events of a running turn, so that a turn resumed after a crash reads the same as the first
attempt.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from bot.access.decision_context import Call
from bot.agent.pictures import NONE, Shown, has_picture, pictured
from bot.agent.window import Messages
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    ChatObserved,
    MemoriesRecalled,
    SessionSummary,
    ToolCall,
    ToolOutcome,
    ToolResult,
    UserMessage,
)
from bot.sessions.log.events import Event, NewEvent
from bot.sessions.messages import OriginKind
from bot.sessions.models import Summary
from bot.sessions.transcript import Tail
from policy.labels import Label

if TYPE_CHECKING:
    from pydantic import JsonValue

SUMMARIZED: Final = "The conversation before this, summarized by a model:"

_ANSWER: Final = "answer"
"""Stands for an answer in the log that waits for an approval before it is sent."""

_OUTCOMES: Final[Mapping[ToolOutcome, Any]] = MappingProxyType(
    {
        ToolOutcome.OK: "success",
        ToolOutcome.HELD: "success",
        ToolOutcome.FAILED: "failed",
        ToolOutcome.DENIED: "denied",
        ToolOutcome.INTERRUPTED: "interrupted",
    }
)

_ORIGINS: Final = MappingProxyType(
    {
        OriginKind.RESULT: "result of background session",
        OriginKind.MESSAGE: "message from session",
        OriginKind.NOTICE: "notice about background session",
        OriginKind.RUNTIME: "the runtime",
    }
)


@dataclass(slots=True)
class Context:
    """The messages that the model reads next."""

    messages: Messages = field(default_factory=Messages)
    decided: dict[str, Label] = field(default_factory=dict[str, Label])
    """The ids of calls whose decision is in the log: one of them without a result was interrupted by a crash.

    With each stands the taint at which it was decided, before it raised anything.
    """
    answered: set[str] = field(default_factory=set[str])
    pictures: Shown = field(default_factory=lambda: NONE)
    """The pictures of the messages in it."""
    turn: str | None = None
    """The turn of the newest of these messages."""
    sent: list[tuple[int, int, UserMessage]] = field(default_factory=list[tuple[int, int, UserMessage]])
    """The messages that came with pictures, each with its place: which request, and which part of it."""

    def copy(self, pictures: Shown) -> "Context":
        """Return a context that goes on from here and shows these pictures, while this one stays as it is."""
        messages = self.messages.copied()
        for request, place, sent in self.sent:
            found = pictured(sent, pictures)
            if found:
                message = cast("ModelRequest", messages[request])
                parts = list(message.parts)
                parts[place] = UserPromptPart([prompt(sent), *found])
                messages[request] = replace(message, parts=parts)
                messages.recount()
        return Context(messages, dict(self.decided), set(self.answered), pictures, self.turn, list(self.sent))

    def become(self, other: "Context") -> None:
        """Take the messages of another context, with this one's knowledge of calls."""
        self.messages, self.pictures, self.turn, self.sent = other.messages, other.pictures, other.turn, other.sent

    @property
    def last_response(self) -> ModelResponse | None:
        """The response the turn stands at, None if the model is to be asked next."""
        for message in reversed(self.messages):
            if isinstance(message, ModelResponse):
                return message
            if any(isinstance(part, UserPromptPart) for part in message.parts):
                return None
        return None

    @property
    def newest_results(self) -> tuple[ToolReturnPart, ...]:
        """The results that the model is to read next."""
        last = self.messages[-1].parts if self.messages else ()
        return tuple(part for part in last if isinstance(part, ToolReturnPart))

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """The calls that wait for a result."""
        response = self.last_response
        if response is None:
            return ()
        return tuple(call_of(part) for part in response.tool_calls if part.tool_call_id not in self.answered)

    @property
    def spoken(self) -> str | None:
        """The text of a response that calls nothing: the answer, if the turn stands at one."""
        response = self.last_response
        if response is None or response.tool_calls:
            return None
        return text_of(response)

    def add_said(self, event: Event | NewEvent) -> None:
        """Append a message, an observed text, or recalled memories; nothing for any other event."""
        match event.body:
            case UserMessage():
                self._add_message(event.body, event.turn)
            case ChatObserved(text=text):
                self.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
                self.turn = None
            case MemoriesRecalled(text=text):
                self._add_part(UserPromptPart(text), event.turn)
            case _:
                pass

    def _add_message(self, message: UserMessage, turn: str) -> None:
        """Append a message; those of one turn that follow each other are one request."""
        text, pictures = prompt(message), pictured(message, self.pictures)
        place = self._add_part(UserPromptPart([text, *pictures] if pictures else text), turn)
        if has_picture(message):
            self.sent.append((*place, message))

    def _add_part(self, part: UserPromptPart, turn: str) -> tuple[int, int]:
        """Append a part to the requests of a turn; return which request it is in, and which part of that."""
        last = self.messages[-1] if self.messages and turn == self.turn else None
        if isinstance(last, ModelRequest) and isinstance(last.parts[-1], UserPromptPart):
            last.parts = [*last.parts, part]
        else:
            last = ModelRequest(parts=[part])
            self.messages.append(last)
        self.turn = turn
        return len(self.messages) - 1, len(last.parts) - 1

    def add_result(self, result: ToolResult) -> None:
        """Append a call's result, joining those of one step into one message."""
        part = ToolReturnPart(
            tool_name=self._called(result),
            content=result.text,
            tool_call_id=result.call,
            outcome=_OUTCOMES[result.outcome],
        )
        self.answered.add(result.call)
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelRequest) and isinstance(last.parts[0], ToolReturnPart):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(ModelRequest(parts=[part]))

    def _called(self, result: ToolResult) -> str:
        """Return the name by which the model called the tool of a result: some providers compare it."""
        calls = () if self.last_response is None else self.last_response.tool_calls
        return next((part.tool_name for part in calls if part.tool_call_id == result.call), result.tool)

    def show(self, result: ToolReturnPart, text: str) -> None:
        """Let one of the newest results be read as this text."""
        last = self.messages[-1]
        last.parts = [replace(part, content=text) if part is result else part for part in last.parts]  # pyright: ignore[reportAttributeAccessIssue] - the last is a request


def assemble(tail: Tail, summary: Summary | None = None, pictures: Shown = NONE, turn: str = "") -> Context:
    """Return the context that a generation's events make, from its first, or a summary and the events after it.

    The words said in the open `turn`, an id, stand unchanged beside the summary.
    """
    context = Context(pictures=pictures)
    if summary is not None:
        context.messages.append(ModelRequest(parts=[UserPromptPart(f"{SUMMARIZED}\n{summary.text}")]))
        for event in (*tail.early, *tail.upto(summary.upto)):
            if event.turn == turn:
                context.add_said(event)
    go_on(context, tail.events if summary is None else tail.after(summary.upto))
    return context


def go_on(context: Context, events: Iterable[Event]) -> None:
    """Put the events that follow into a context."""
    for event in events:
        _add(context, event)


def newest_summary(tail: Tail, upto: int | None = None) -> Summary | None:
    """Return the newest recap of everything before it, None if there is none; a recap of a topic does not count.

    With `upto` the newest that covers no more than that many events of the generation.
    """
    for event in reversed(tail.events):
        if isinstance(event.body, SessionSummary) and not event.body.topic:
            found = _summary(event.body)
            if upto is None or found.upto <= upto:
                return found
    return None


def base(tail: Tail) -> Summary | None:
    """Return the recap that a context begins with, as it was made when the window was full; None if there is none."""
    for event in reversed(tail.events):
        if isinstance(event.body, SessionSummary) and event.carried is not None:
            return _summary(event.body)
    return None


def _summary(recap: SessionSummary) -> Summary:
    return Summary(recap.text, recap.upto, messages=recap.messages)


def cuts(events: Iterable[Event]) -> Iterator[int]:
    """Yield the numbers of events after which a context may begin: after some words, and with no call unanswered.

    The end of the log is the last of them.
    """
    waiting, before, begun = set[str](), 0, False
    for n, event in enumerate(events, 1):
        if isinstance(event.body, UserMessage):
            waiting.discard(_ANSWER)
        if isinstance(event.body, UserMessage | AgentThinking):
            if begun and not waiting:
                yield before
            begun = True
        match event.body:
            case AgentThinking():
                calls = response_from(event.body).tool_calls
                waiting |= {part.tool_call_id for part in calls} or {_ANSWER}
            case ToolResult(call=call):
                waiting.discard(call)
            case AgentMessage():
                waiting.discard(_ANSWER)
            case _:
                pass
        before = n
    if begun and not waiting:
        yield before


def _add(context: Context, event: Event) -> None:
    """Put an event into a context; one of an unknown type is left out, as its meaning is unknown."""
    match event.body:
        case UserMessage() | ChatObserved() | MemoriesRecalled():
            context.add_said(event)
        case AgentThinking():
            context.messages.append(response_from(event.body))
        case AgentMessage(text=text):
            # An answer that waited for an approval stands in the log as thinking already.
            if context.spoken is not None:
                context.messages.pop()
            context.messages.append(ModelResponse(parts=[TextPart(text)]))
        case ToolCall(call=call):
            context.decided[call] = event.label
        case ToolResult():
            context.add_result(event.body)
        case _:
            pass


def prompt(message: UserMessage) -> str:
    """Return a message as the model reads it: a message of another session names it in its first line.

    A task needs no such line: a background session has no user who could be taken for its author.
    """
    origin = message.origin
    if origin is None or origin.kind is OriginKind.TASK:
        return message.text
    named = f" {origin.session}" if origin.session else ""
    return f"[{_ORIGINS[origin.kind]}{named}, not your user]\n{message.text}"


def thought(response: ModelResponse) -> AgentThinking:
    """Return a model's response as the log keeps it, complete enough to be sent back to its provider."""
    return AgentThinking(ModelMessagesTypeAdapter.dump_python([response], mode="json")[0])


def response_from(kept: AgentThinking) -> ModelResponse:
    """Read a response back from the log."""
    (message,) = ModelMessagesTypeAdapter.validate_python([kept.response])
    if not isinstance(message, ModelResponse):
        raise TypeError("an agent.thinking event holds no model response")
    return message


def text_of(response: ModelResponse) -> str:
    """Return the text of a response."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def call_of(part: ToolCallPart) -> Call:
    """Return a proposed call; arguments that are not a JSON object are None."""
    arguments: object = part.args or {}
    try:
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        # Neither NaN and the infinities are JSON, nor is a value that cannot be written again.
        json.dumps(arguments, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        arguments = None
    mapping = cast("dict[str, JsonValue]", arguments) if isinstance(arguments, dict) else None
    return Call(part.tool_call_id, part.tool_name, mapping)
