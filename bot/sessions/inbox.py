"""Inputs of a session: what waits, what becomes of it, and what was overheard beside it."""

from dataclasses import dataclass, field
from enum import StrEnum

from bot.sessions.background.delegation import Lineage
from bot.sessions.background.runs import Charter
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.messages import SessionMessage
from bot.sessions.refs import Ref
from policy.labels import PUBLIC, Label


class QueueMode(StrEnum):
    """How a session takes what comes while a turn runs; only what whoever the turn is for says enters it.

    COLLECT makes one turn of what waits when a turn ends, QUEUE makes each message a turn of its own, STEER lets them
    into the running turn, INTERRUPT ends that and goes on with them.
    """

    COLLECT = "collect"
    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"

    def joins(self, *, opening: bool) -> bool:
        """Say whether what waits enters a turn before its next model call; `opening` tells that it is the first."""
        return self is QueueMode.STEER or (opening and self is not QueueMode.QUEUE)


class ItemStatus(StrEnum):
    """Where an accepted input is: the last four are terminal (law `accepted_once_in_order`)."""

    WAITING = "waiting"
    HELD = "held"
    TAKEN = "taken"
    CONSUMED = "consumed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a program keeps with its session, as JSON, with its label (law `stored_things_keep_their_label`)."""

    text: str
    label: Label


@dataclass(frozen=True, slots=True)
class NewItem:
    """An input to accept.

    `sid` is the session it is for, which is created from `home` (an address' text), `principal` and
    `creation` if it does not exist. `dedupe` identifies the input on its platform: the same key with
    the same `body` is the same input. `sender` is the principal who wrote it, `label` its inbound label.
    `lineage` makes it the task of a new background session, `charter` the goal of a new run; either is created only
    until `reserved`. `refs` are what it came from. `agent` is what a session that it creates pins, see
    `bot.access.agents`, and `memory` what was chosen for it that is done with memories.

    What a program says has more. `created_with` is the digest of all that it creates a session with: one that is there
    was created with the same, and takes this input once. `metadata` is what it keeps with that. `mode` is how the
    session takes what comes while a turn runs, from this input on. With `reader` the session must be there and
    visible at that clearance.
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


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An accepted input: `position` counts 1, 2, 3 … within its generation, as older ones tell nothing here."""

    position: int
    dedupe: str
    sender: str
    label: Label
    body: SessionMessage
    accepted_at: int
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receipt of an accepted input.

    `duplicate` tells that it had been accepted before, `stopping` is the id of the open turn if that is to stop.
    `rests` tells that the session is paused, so that it waits. `created_at` is when the session was created, in
    milliseconds on the store's clock.
    """

    position: int
    status: ItemStatus
    duplicate: bool
    stopping: str = ""
    rests: bool = False
    created_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop found: whether a turn was open, and how many waiting inputs it cancelled.

    `unanswered` are the positions of those that people wrote, all of them.
    """

    running: bool
    cancelled: int
    unanswered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What became of an input.

    `seq` is that of the event that let it in, 0 before that and for an input that no session sent. One that was held
    is HELD for ever, whatever a person decided about it.
    """

    status: ItemStatus
    seq: int = 0


@dataclass(frozen=True, slots=True)
class NewObserved:
    """A text to keep: who said it, as the platform's account, its inbound label, and the platform's identity of it.

    `opens` is the thread that it may be the beginning of, empty for none.
    """

    dedupe: str
    account: str
    label: Label
    text: str
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """A text that is kept. Ids grow within a session, also when nothing of before is kept any more."""

    id: str
    account: str
    label: Label
    text: str
    opens: str
