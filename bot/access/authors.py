"""The authors of a context: people who wrote to the bot, were observed, or whose words another session passed on.

The answers, calls and summaries of a model derive from all words that were there before. So the authors of a generation
only grow until its reset, and a message from one session to another carries them along. Whether they count besides the
asker is decided in each turn (law `others_cannot_command`); no label changes.
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
