"""Events as tests look for them: by the class of what they tell."""

from collections.abc import Iterable
from typing import TypeVar

from bot.sessions.event_types import EventBody
from bot.sessions.events import Event, NewEvent

_Body = TypeVar("_Body", bound=EventBody)


def bodies(events: Iterable[Event | NewEvent], kind: type[_Body]) -> list[_Body]:
    """Return what the events of one type tell, in their order."""
    return [event.body for event in events if isinstance(event.body, kind)]


def body_of(event: Event | NewEvent, kind: type[_Body]) -> _Body:
    """Return what an event tells that is of this type."""
    assert isinstance(event.body, kind)
    return event.body
