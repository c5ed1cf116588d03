"""Events as programs ask for them: which ones, a page of them, and the documents that tell them."""

from dataclasses import dataclass
from typing import Final

from pydantic import Field, JsonValue

from bot.api.errors import INVALID, ApiRefusedError, log_truncated
from bot.api.shapes import ApiOutput
from bot.api.watching import PAGE
from bot.core.errors import NotFoundError, SchemaError
from bot.core.json_values import JsonObject
from bot.operations.told_events import EventTeller
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.visibility import sees
from policy.labels import Label

MOST_TYPES: Final = 50

_MOST_READS: Final = 25
"""How often the log is read for one page."""


class ToldEvent(ApiOutput):
    """An event of a session's log."""

    id: str
    seq: int = Field(description="Its place in the log, which `after` and `Last-Event-ID` name.")
    ts: int = Field(description="Milliseconds since 1970.")
    actor: str
    type: str
    level: Visibility
    label: str
    body: dict[str, JsonValue]
    turn_id: str = ""


class EventPage(ApiOutput):
    """Events, oldest first."""

    events: tuple[ToldEvent, ...]
    next: int | None = Field(description="The value of `after` for the next page; null where there is none yet.")


@dataclass(frozen=True, slots=True)
class EventChoice:
    """The events that a program wants: those of a level at least, and of some types, or of all if none is named."""

    least: Visibility = Visibility.PROGRESS
    types: frozenset[str] = frozenset()

    @staticmethod
    def of(least: Visibility, types: str | None) -> "EventChoice":
        """Return the choice of a query, whose types are separated by commas.

        Raises ApiRefusedError: a type is not valid.
        """
        named = frozenset(types.split(",")) if types is not None else frozenset[str]()
        if "" in named or len(named) > MOST_TYPES:
            raise ApiRefusedError(INVALID)
        return EventChoice(least, named)

    def takes(self, event: Event) -> bool:
        """Say whether an event is among them."""
        return event.visibility.at_least(self.least) and (not self.types or event.type in self.types)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A question for the events of a session behind one, `limit` of them at most."""

    principal: str
    reader: Label
    choice: EventChoice
    after: int
    limit: int


async def page_of(
    store: SessionStore, teller: EventTeller, sid: str, asked: PageRequest
) -> tuple[list[JsonObject], int | None]:
    """Return events as documents, and the seq to ask behind next, None if none follow.

    The log is read first and the session's record after it, as often as it takes: the last record decides. So long a
    stretch without anything that was asked for is left to the next page.

    Raises:
        NotFoundError: the session may not be known of, by now.
        ApiRefusedError: the log does not have the event that is named.
        StoreError: the store does not answer.
    """
    told, after, last = list[JsonObject](), asked.after, asked.after
    for _ in range(_MOST_READS):
        events, state = await _news(store, sid, after)
        if state is None or not sees(state, asked.principal, asked.reader):
            raise NotFoundError
        if asked.after > state.seq:
            raise ApiRefusedError(log_truncated(asked.after, state.seq))
        for event in events:
            shown = told_of(teller, state, event, asked)
            if shown is None:
                continue
            if len(told) == asked.limit:
                return told, last
            told.append(shown)
            last = event.seq
        if len(events) < PAGE:
            return told, None
        after = events[-1].seq
    return told, after


async def _news(store: SessionStore, sid: str, after: int) -> tuple[tuple[Event, ...], SessionState | None]:
    try:
        return await store.news(sid, after=after, limit=PAGE)
    except SchemaError:
        # Whose it is cannot be told, so it is as if it were not there.
        return (), None


def told_of(teller: EventTeller, state: SessionState, event: Event, asked: PageRequest) -> JsonObject | None:
    """Return an event as a document, None for one that is not asked for, or not for this reader.

    Events before the last reset go to no reader: their number may be known as little as their text.
    """
    if event.generation != state.generation or not asked.choice.takes(event):
        return None
    return teller.told(state, event, asked.reader)
