"""Inputs of a session: those that wait, their outcomes, and texts observed beside the session."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bot.sessions.background.delegation import Lineage
from bot.sessions.background.runs import Charter
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.messages import SessionMessage
from bot.sessions.refs import Ref
from policy.labels import PUBLIC, Label

TEXT_PART: Final = "text"
"""The `part` of a text that is so long that its sender's client may have cut it; the next one may continue it."""


class QueueMode(StrEnum):
    """How a session takes inputs while a turn runs; only messages of the turn's own person enter that turn.

    COLLECT makes one turn of all waiting inputs when a turn ends. QUEUE makes each message a turn of its own. STEER
    lets waiting inputs into the running turn. INTERRUPT ends the running turn and goes on with them.
    """

    COLLECT = "collect"
    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"

    def joins(self, *, opening: bool) -> bool:
        """Say whether waiting inputs enter a turn before its next model call; `opening` means its first call."""
        return self is QueueMode.STEER or (opening and self is not QueueMode.QUEUE)


class ItemStatus(StrEnum):
    """The state of an accepted input: the last four are terminal (law `accepted_once_in_order`)."""

    WAITING = "waiting"
    HELD = "held"
    TAKEN = "taken"
    CONSUMED = "consumed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Metadata:
    """JSON that a program keeps with its session, with its label (law `stored_things_keep_their_label`)."""

    text: str
    label: Label


@dataclass(frozen=True, slots=True)
class NewItem:
    """An input to accept.

    Args:
        sid: The session it is for, which is created if it does not exist.
        dedupe: The input's id on its platform: the same key with the same `body` is the same input.
        sender: The principal who wrote it.
        label: Its inbound label.
        body: The message.
        home: The home of a new session, as address text.
        principal: The principal of a new session.
        creation: The creation label of a new session.
        lineage: Makes it the task of a new background session.
        reserved: A session with a lineage or charter is created only until this time, in milliseconds on the store's
            clock.
        refs: The sources that it came from.
        agent: The pin of a new session's agent, see `bot.access.agents`.
        created_with: The digest of all values that a program creates a session with. An existing session must have been
            created with the same ones, and takes this input once.
        metadata: The metadata that a program keeps with the session.
        mode: How the session takes inputs while a turn runs, from this input on; None changes nothing.
        reader: The clearance at which the session must exist and be visible, None for no such check.
        charter: Makes it the goal of a new run.
        memory: The use of memories that was chosen for a new session.
        part: The message that it may be a part of: the name of an album, or `TEXT_PART` for a text that may continue in
            the next. Empty for a whole message.
    """

    sid: str
    dedupe: str
    sender: str
    label: Label
    body: SessionMessage
    home: str
    principal: str
    creation: Label = PUBLIC
    lineage: Lineage | None = None
    reserved: int = 0
    refs: tuple[Ref, ...] = ()
    agent: str = ""
    created_with: str = ""
    metadata: Metadata | None = None
    mode: QueueMode | None = None
    reader: Label | None = None
    charter: Charter | None = None
    memory: MemoryUse | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An accepted input; `position` counts from 1 within its generation, so that it reveals no older ones.

    `part` is as in `NewItem`. `also` are the positions of further inputs whose content it has, as they are parts of the
    same message.
    """

    position: int
    dedupe: str
    sender: str
    label: Label
    body: SessionMessage
    accepted_at: int
    refs: tuple[Ref, ...] = ()
    part: str = ""
    also: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receipt of an accepted input.

    Args:
        position: Its position in its generation.
        status: Its state.
        duplicate: Whether it had been accepted before.
        stopping: The id of the open turn if that is to stop, else empty.
        rests: Whether the session is paused, so that the input waits.
        created_at: When the session was created, in milliseconds on the store's clock.
    """

    position: int
    status: ItemStatus
    duplicate: bool
    stopping: str = ""
    rests: bool = False
    created_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The result of a stop.

    Args:
        running: Whether a turn was open.
        cancelled: How many waiting inputs it cancelled.
        unanswered: The positions of all cancelled inputs that people wrote.
    """

    running: bool
    cancelled: int
    unanswered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """The outcome of an input.

    `seq` is that of the event that admitted it, 0 before that and for an input that no session sent. A held input stays
    HELD, also after a person decided about it.
    """

    status: ItemStatus
    seq: int = 0


@dataclass(frozen=True, slots=True)
class NewObserved:
    """A text to keep.

    Args:
        dedupe: Its id on the platform.
        account: The platform account of its writer.
        label: Its inbound label.
        text: The text.
        opens: The thread that it may begin, empty for none.
    """

    dedupe: str
    account: str
    label: Label
    text: str
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A text that is kept. Ids grow within a session, also after older texts are gone."""

    id: str
    account: str
    label: Label
    text: str
    opens: str
