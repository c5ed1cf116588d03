"""Whose words a context holds: people who wrote to the bot, whom it overheard, and whose words others passed on.

What a model says or calls, and what it sums up, derives from all words that were there before. So nobody leaves the
authors of a generation before its reset, and what one session tells another takes them along. Who counts beside whom
is decided in each turn (law `others_cannot_command`); no label is touched.
"""

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from bot.sessions.events import Event, EventType, NewEvent, texts

AUTHORS: Final = "authors"
"""The field of a body that names people, by principal or, of somebody who is none, by account."""


def authors(events: Iterable[Event | NewEvent]) -> frozenset[str]:
    """Return the people whose words are in these events of one generation."""
    found = set[str]()
    for event in events:
        if event.admitted:
            found.update(texts(event.body, AUTHORS))
            if event.type is EventType.USER_MESSAGE:
                found.add(event.actor)
    return frozenset(found)


def named(people: Iterable[str]) -> dict[str, JsonValue]:
    """Return the field of a body that names people, nothing if there are none."""
    listed: list[JsonValue] = [*sorted(people)]
    return {AUTHORS: listed} if listed else {}
