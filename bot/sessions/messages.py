"""The content of a message to a session: its words, its attachments, and the session that sent it, if one did.

A message waits in an inbox, or is held there until a person lets it in. Once it is admitted to the context it is an
event (`bot.sessions.log.event_types`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from channels.messages import Attachment


class FileKind(StrEnum):
    """The use that can be made of a file: read its text, show a picture, transcribe a recording, or none."""

    TEXT = "text"
    PICTURE = "picture"
    AUDIO = "audio"
    OTHER = "other"


class OriginKind(StrEnum):
    """The kind of a message from another session: its task, a result, a message of a peer, or a notice about a child.

    RUNTIME is a message of the runtime itself to a run: its next turn.
    """

    TASK = "task"
    RESULT = "result"
    MESSAGE = "message"
    NOTICE = "notice"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Endorsed:
    """A bounded answer that was endorsed: the choice of a background session or of `inspect` among given values.

    Args:
        session: The background session, or the session that called `inspect`.
        text: The answer.
        run: The id of the background session's run or of the call, which is charged.
        millibits: The information that an answer of its fields may carry, in thousandths of a bit, which is charged.
    """

    session: str
    text: str
    run: str
    millibits: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The session that sent a message, and the message's dependencies: facts of the program, never content.

    Args:
        kind: The kind of message.
        session: The sending session, empty where it is not named.
        typed: The web addresses that a task's asker typed.
        endorsed: The bounded answers that the sender had heard, or gives.
    """

    kind: OriginKind
    session: str = ""
    typed: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """A message of a person or of another session.

    Args:
        text: Its text.
        account: The account that typed it, as `channel:id`, empty for a program.
        quoted: Texts of others that came with it.
        files: Attachments that are not fetched yet.
        opens: Whether it stands in no thread yet.
        origin: The sending session, None for a person's message.
        hops: How many sessions it came through.
        authors: The people whose words another session's message derives from.
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
    """Return people as records name them: sorted, so that equal sets give equal records."""
    return tuple(sorted(people))
