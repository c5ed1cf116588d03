"""Reading a session's log backwards, newest first, without reading all of it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from bot.sessions.log.event_types import (
    AgentMessage,
    ChatObserved,
    MemoriesRecalled,
    ToolCall,
    ToolResult,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from policy.labels import Label

_WINDOW: Final = 200


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a transcript: its events, oldest first; `before` is the cursor of the part before, None for the first."""

    events: tuple[Event, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class Tail:
    """A generation's log from one of its events on.

    Args:
        events: The events.
        before: How many events of the generation came before them.
        early: Earlier events of the open turn, which stand beside the recap in full.
    """

    events: tuple[Event, ...]
    before: int = 0
    early: tuple[Event, ...] = ()

    def upto(self, number: int) -> tuple[Event, ...]:
        """Return those of the events that are among the first `number` events of the generation."""
        return self.events[: max(number - self.before, 0)]

    def after(self, number: int) -> tuple[Event, ...]:
        """Return the events after the first `number` events of the generation."""
        return self.events[max(number - self.before, 0) :]


async def backwards(
    store: SessionStore, state: SessionState, *, before: int | None = None, window: int = _WINDOW
) -> AsyncIterator[Event]:
    """Yield the events of the session's generation, newest first, reading `window` of them at a time.

    With `before` those whose place in the generation is lower.
    """
    newest, oldest = state.seq, max(state.generation_seq - 1, 0)
    if before is not None:
        newest = min(newest, oldest + before - 1)
    while newest > oldest:
        after = max(newest - window, oldest)
        for event in reversed(await store.events(state.sid, after=after, limit=newest - after)):
            if event.generation == state.generation:
                yield event
        newest = after


def _none(_event: Event) -> bool:
    return False


async def transcript(  # noqa: PLR0913 - a page, and the events that it is of
    store: SessionStore,
    state: SessionState,
    reader: Label,
    *,
    before: int | None,
    limit: int,
    tools: bool,
    beside: Callable[[Event], bool] = _none,
) -> Stretch:
    """Return the messages of the session's generation, at most `limit` events, as far as `reader` may know of them.

    `tools` adds calls, their results and recalled memories. A withheld answer is left out. An event of an unknown type
    counts as a message if it is meant for people. Events that are `beside` are added, and do not count for the limit.
    """
    found, count = list[Event](), 0
    async for event in backwards(store, state, before=before):
        wanted = _wanted(event, tools=tools)
        if not event.label.flows_to(reader) or not (wanted or beside(event)):
            continue
        count += wanted
        if count > limit:
            return Stretch(tuple(reversed(found)), place(found[-1], state))
        found.append(event)
    return Stretch(tuple(reversed(found)), None)


def _wanted(event: Event, *, tools: bool) -> bool:
    match event.body:
        case UserMessage() | ChatObserved() | AgentMessage() | UnknownEvent():
            return event.visibility is Visibility.USER
        case ToolCall() | ToolResult() | MemoriesRecalled():
            return tools
        case _:
            return False


def place(event: Event, state: SessionState) -> int:
    """Return an event's place in its generation, from 1: older generations are not counted (law `no_read_up`)."""
    return event.seq - state.generation_seq + 1
