"""Sessions among themselves: where a background session comes from, its slot, and what one session sends another.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.sessions.messages import SessionMessage
from bot.sessions.refs import Ref
from policy.labels import PUBLIC, Label

SESSION: Final = "session"
"""The channel of addresses that are sessions: what is said there, another session hears, and no person."""


LATE: Final = 60_000
"""Milliseconds after its deadline, or after it was sent, within which what was charged for may still arrive."""


MOST_HOPS: Final = 5
"""How many sessions a message may come through before nothing more is sent or spawned because of it."""


class FieldKind(StrEnum):
    """What a bounded value is; an enum is one of the members given with it."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    DATE = "date"
    ENUM = "enum"


@dataclass(frozen=True, slots=True)
class ResultField:
    """One field that a background session answers with.

    A number is one of `least`, `least + step` … up to `most`, each written as a decimal. A date is from `least` to
    `most`.
    """

    name: str
    kind: FieldKind
    members: tuple[str, ...] = ()
    least: str = ""
    most: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a background session comes from and what it was asked for.

    `parent` is the session it reports to, in the generation it was spawned in. `run` is the id its spawning
    answered with. `depth` is 1 for a child, 2 for a grandchild. It must end by `deadline`. `deliver_to` names
    the recipient who hears its result besides, empty for nobody, and `meant` is what that name meant when it was
    spawned (`bot.access.recipients.meaning`). `returns` are the fields it answers with, none for a
    text. `asked_at` is the address of the conversation from which it was set going, its parent's for a grandchild:
    where its person is asked first, if they are alone there.
    `known` is what the parent had read when it was spawned: while it has not read more, its parent may know what it
    does; from then on nothing of it.
    `root` is the conversation that its tree began in, in the generation `root_generation`; there its answer was
    charged, if it is `endorsed`. One that is `beyond` would have been, but more was asked for than may be: it is held.
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


@dataclass(frozen=True, slots=True)
class Errand:
    """What a session wants done in the background: `minutes` at most, 0 for as long as configuration gives.

    `returns` are the fields it wants to hear, none for a text. `meant` is what the name `deliver_to` means. `refs` are
    what the task came from.
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
class Charge:
    """What an answer may endorse, in thousandths of a bit, charged to the session `sid` for a `run`.

    `label` is what whoever asks has read: what was charged above it does not count, for it could tell. `until` is when
    the answer must have come. `most` is how much may be charged since a person's last message.
    """

    sid: str
    generation: int
    run: str
    label: Label
    millibits: int
    until: int
    most: int


@dataclass(frozen=True, slots=True)
class Caps:
    """How many background sessions may live in one pool: of one parent, of one principal; and how deep."""

    children: int
    live: int
    depth: int


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot asked for, for the background session `sid` of a parent.

    `pool` is the label of whoever asks, of which its integrity does not count: its principal's slots of one pool are
    counted apart from all others. `life` is how many milliseconds the session may take at most; it must end by
    `deadline` in any case, 0 for no other.
    """

    run: str
    sid: str
    parent: str
    pool: Label
    life: int
    deadline: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot reserved `now`, on the store's clock: created by `until`, its session must end by `deadline`."""

    now: int
    until: int
    deadline: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A background session's slot, taken in a pool until it is freed or due.

    `live` tells that nobody freed it, `due` that its deadline has passed, `lapsed` that a session not created by now
    cannot be any more.
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
    """What one session sends another: an item for the inbox of a session that is there already.

    `generation` is the target's when it was sent. A `report` is what a background session tells its parent at its end,
    and that it rose above it: for that there is always room. `run` is that of the background session whose result it
    is, empty for any other. With `hold` it is held whatever its label. `told` is what the sender's own readers may
    know: of a target that is above that, nothing shows to it. `refs` are what it came from.
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
    """What a session did with a parcel; the last five are final failures.

    `UNTOLD` is for a sender who may not know of the session: it had no room or took nothing any more, and nobody hears.
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
    """An item that waits for a person: `label` is what the session would have read once it is let in."""

    id: str
    sender: str
    label: Label
    body: SessionMessage
    at: int
    refs: tuple[Ref, ...] = ()
