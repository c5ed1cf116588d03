"""Relations among sessions: the lineage of a background session, its slot, and parcels between sessions.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.sessions.messages import SessionMessage
from bot.sessions.refs import Ref
from policy.labels import PUBLIC, Label

SESSION: Final = "session"
"""The channel of addresses that are sessions: a text sent there reaches another session, and no person."""


LATE: Final = 60_000
"""Milliseconds after a session's deadline, or after the sending, within which a charged text may still arrive."""


MOST_HOPS: Final = 5
"""The most sessions a message may come through; after that nothing more is sent or spawned because of it."""


class FieldKind(StrEnum):
    """The kind of a bounded value; an enum is one of the members given with it."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    DATE = "date"
    ENUM = "enum"


@dataclass(frozen=True, slots=True)
class ResultField:
    """One field that a background session answers with.

    Args:
        name: Its name.
        kind: Its kind.
        members: The members of an enum.
        least: The least number, as a decimal, or the first date.
        most: The largest number, as a decimal, or the last date.
        step: The step of a number, as a decimal: it is one of `least`, `least + step` … up to `most`.
    """

    name: str
    kind: FieldKind
    members: tuple[str, ...] = ()
    least: str = ""
    most: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a background session and its task.

    Args:
        parent: The session it reports to.
        generation: The parent's generation at the spawn.
        run: The id that its spawning answered with.
        depth: 1 for a child, 2 for a grandchild.
        deadline: When it must have ended, in milliseconds on the store's clock.
        title: Its title.
        deliver_to: The name of a recipient who hears its result besides, empty for none.
        returns: The fields it answers with, none for a text.
        asked_at: The address of the conversation it was set going from, its parent's for a grandchild. Its person is
            asked there first, if they are alone there.
        known: The parent's taint at the spawn. While it has not read more, its parent may know what it does; from then
            on nothing of it.
        root: The conversation that its tree began in.
        root_generation: The generation of `root` at that time.
        endorsed: Whether its answer is endorsed, and was charged at `root`.
        beyond: Whether its answer would have been endorsed but for the limit: it is held.
        meant: The meaning of `deliver_to` at the spawn (`bot.access.recipients.meaning`).
    """

    parent: str
    generation: int
    run: str
    depth: int
    deadline: int
    title: str = ""
    deliver_to: str = ""
    returns: tuple[ResultField, ...] = ()
    asked_at: str = ""
    known: Label = PUBLIC
    root: str = ""
    root_generation: int = 0
    endorsed: bool = False
    beyond: bool = False
    meant: str = ""


def tree_root(sid: str, generation: int, lineage: Lineage | None) -> tuple[str, int]:
    """Return the conversation in which a session's tree began, and its generation at that time."""
    return (sid, generation) if lineage is None else (lineage.root, lineage.root_generation)


@dataclass(frozen=True, slots=True)
class Errand:
    """A task that a session wants done in the background.

    Args:
        task: The task.
        title: Its title.
        deliver_to: The name of a recipient who hears the result besides, empty for none.
        minutes: The longest time it may take, 0 for the configured one.
        returns: The fields of its answer, none for a text.
        meant: The meaning of `deliver_to` now.
        refs: The sources that the task came from.
    """

    task: str
    title: str = ""
    deliver_to: str = ""
    minutes: int = 0
    returns: tuple[ResultField, ...] = ()
    meant: str = ""
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A background session that was spawned; `beyond` tells that its answer will be held, as `Lineage.beyond`."""

    run: str
    sid: str
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class BoundedAnswer:
    """How an answer of fields within a call was charged, before anything was read for it.

    Args:
        run: The id under which it is charged.
        millibits: The information that it may carry, in thousandths of a bit.
        endorsed: Whether its integrity is endorsed.
        beyond: Whether it would have been endorsed but for the limit: it is held.
    """

    run: str
    millibits: int
    endorsed: bool
    beyond: bool


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge for the answer of a run that is to be endorsed.

    Args:
        sid: The session that is charged.
        generation: Its generation.
        run: The run.
        label: The taint of the asking session. Charges above it are not counted, since the count could reveal them.
        millibits: The information an answer may carry, in thousandths of a bit.
        until: When the answer must have come, in milliseconds on the store's clock.
        most: How much may be charged since a person's last message, in thousandths of a bit.
        at_once: Whether the answer comes at a place fixed by the call, so that its order carries nothing.
    """

    sid: str
    generation: int
    run: str
    label: Label
    millibits: int
    until: int
    most: int
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits on background sessions: live ones of one parent, live ones of one principal in a pool, and their depth."""

    children: int
    live: int
    depth: int


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A request for a slot, for the background session `sid` of a parent.

    Args:
        run: The run.
        sid: The background session.
        parent: Its parent.
        pool: The label of the asking session, without integrity. The slots of each pool of a principal are counted
            apart.
        life: How many milliseconds the session may take.
        deadline: When it must have ended in any case, in milliseconds on the store's clock; 0 for no such limit.
    """

    run: str
    sid: str
    parent: str
    pool: Label
    life: int
    deadline: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved slot. Times are milliseconds on the store's clock.

    Args:
        now: The time of the reservation.
        until: The session must be created before this time.
        deadline: The session must have ended by this time.
    """

    now: int
    until: int
    deadline: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A background session's slot, taken in a pool until it is freed or due.

    Args:
        run: The run.
        sid: The background session.
        parent: Its parent.
        pool: The pool.
        lapsed: Whether the time to create the session has passed.
        due: Whether its deadline has passed.
        live: Whether it has not been freed.
        record: Its stored record, by which a later change is recognised.
    """

    run: str
    sid: str
    parent: str
    pool: Label
    lapsed: bool
    due: bool
    live: bool
    record: bytes


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message from one session to another existing session.

    Args:
        sid: The target.
        generation: The target's generation when it was sent.
        dedupe: Its dedupe key.
        sender: The principal who sends it.
        label: Its label.
        body: The message.
        report: Whether it is a background session's report to its parent, at its end or when it rose above the parent;
            there is always room for a report.
        run: The run of the background session whose result it is, empty for any other.
        hold: Whether it is held regardless of its label.
        told: The clearance of the sender's own readers: no fact of a target above it is shown to the sender.
        refs: The sources that it came from.
    """

    sid: str
    generation: int
    dedupe: str
    sender: str
    label: Label
    body: SessionMessage
    report: bool = False
    run: str = ""
    hold: bool = False
    told: Label = PUBLIC
    refs: tuple[Ref, ...] = ()


class Arrival(StrEnum):
    """The outcome of a parcel at its target; the last five are final failures.

    `UNTOLD` is for a sender that may not know of the session: it had no room or accepts nothing any more, and the
    sender is not told.
    """

    WAITING = "waiting"
    HELD = "held"
    UNTOLD = "untold"
    ABSENT = "absent"
    RESET = "reset"
    ARCHIVED = "archived"
    ENDED = "ended"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A held item that waits for a person: `label` is the label the session would read once it is let in."""

    id: str
    sender: str
    label: Label
    body: SessionMessage
    at: int
    refs: tuple[Ref, ...] = ()
