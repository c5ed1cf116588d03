"""Whose words a context holds: people who wrote to the bot, whom it overheard, and whose words others passed on.

What a model says or calls, and what it sums up, derives from all words that were there before. So nobody leaves the
authors of a generation before its reset, and what one session tells another takes them along. Who counts beside whom
is decided in each turn (law `others_cannot_command`); no label is touched.
"""

from collections.abc import Iterable

from bot.sessions.log.event_types import ChatObserved, SessionSummary, UnknownEvent, UserMessage
from bot.sessions.log.events import Event, NewEvent


def authors(events: Iterable[Event | NewEvent]) -> frozenset[str]:
    """Return the people whose words are in these events of one generation.

    They are named by principal or, where they have none, by account. The writers of an event of an unknown type are
    unknown: all people that it names count, and its actor (law `unknown_is_worst`).
    """
    found = set[str]()
    for event in events:
        if event.admitted:
            match event.body:
                case UserMessage(authors=others) | UnknownEvent(authors=others):
                    found.update(others, (event.actor,))
                case ChatObserved(authors=others) | SessionSummary(authors=others):
                    found.update(others)
                case _:
                    pass
    return frozenset(found)
