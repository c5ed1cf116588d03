"""A session that is brought in from an export, as the store is given it."""

from dataclasses import dataclass

from bot.sessions.events import NewEvent
from bot.sessions.models import LastTurn, Title
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """An event with the time it was written at, in milliseconds since the epoch; 0 for now."""

    ts: int
    event: NewEvent


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """All of a session: its log from seq 1 on, and its record. It is archived, and begins no turn.

    `creation` is the label of all that it holds, so that nobody below hears of it.
    """

    sid: str
    principal: str
    home: str
    creation: Label
    events: tuple[ImportedEvent, ...]
    title: Title | None
    last_turn: LastTurn | None
