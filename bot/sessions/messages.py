"""What a message to a session carries: its words, what came with them, and which session sent it, if one did.

It waits in an inbox, or is held there until a person lets it in. What became of it once it entered the context is an
event (`bot.sessions.log.event_types`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from channels.messages import Attachment


class FileKind(StrEnum):
    """What can be done with a file: its text read, a picture shown, what is said in it written down, or none of it."""

    TEXT = "text"
    PICTURE = "picture"
    AUDIO = "audio"
    OTHER = "other"


class OriginKind(StrEnum):
    """As what a session hears another one: its task, a result, a message of a peer, or a notice about a child.

    RUNTIME is what the runtime itself tells a run: its next turn.
    """

    TASK = "task"
    RESULT = "result"
    MESSAGE = "message"
    NOTICE = "notice"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Endorsed:
    """A bounded answer that was endorsed: what the background session `session` chose of what it was given.

    `run` is that one's id, and `millibits` what an answer of its fields may tell, by which both are charged.
    """

    session: str
    text: str
    run: str
    millibits: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Which session sent a message, as what, and what the message depends on: facts of the program, never content.

    `session` is empty where the sender is not named. `typed` are the web addresses that a task's asker typed.
    `endorsed` are the bounded answers that the sender had heard, or gives.
    """

    kind: OriginKind
    session: str = ""
    typed: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """What a person or another session says to a session.

    `account` is who typed it, as `channel:id`, empty for a program. `quoted` are texts of others that came with it,
    `files` what came beside it, not fetched yet. `opens` tells that it stands in no thread yet. `origin` is None for a
    person's message. `hops` is how many sessions it came through. `authors` are the people whose words another
    session's message derives from.
    """

    text: str
    account: str = ""
    quoted: tuple[str, ...] = ()
    files: tuple[Attachment, ...] = ()
    opens: bool = False
    origin: Origin | None = None
    hops: int = 0
    authors: tuple[str, ...] = ()


def named(people: Iterable[str]) -> tuple[str, ...]:
    """Return people as a record names them: in one order, so that equal sets are equal records."""
    return tuple(sorted(people))
