"""Events as tests look for them: by the class of what they tell."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import JsonValue

from bot.sessions.log.event_types import EventBody
from bot.sessions.log.events import Event, NewEvent
from bot.sessions.log.serialization import event_json

_Body = TypeVar("_Body", bound=EventBody)


def bodies(events: Iterable[Event | NewEvent], kind: type[_Body]) -> list[_Body]:
    """Return what the events of one type tell, in their order."""
    return [event.body for event in events if isinstance(event.body, kind)]


def untimed(body: EventBody) -> dict[str, JsonValue]:
    """Return what an event tells as JSON, but for how long something took: laws leave that out."""
    return {name: value for name, value in event_json(body).items() if name not in {"took", "idle"}}


def body_of(event: Event | NewEvent, kind: type[_Body]) -> _Body:
    """Return what an event tells that is of this type."""
    assert isinstance(event.body, kind)
    return event.body
