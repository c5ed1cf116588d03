"""What is to be said, an outbox entry from its commit to its receipt, and how fast it may be said.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.sessions.background.delegation import Arrival
from bot.sessions.messages import Endorsed
from bot.sessions.refs import Ref
from policy.labels import Label

OURS: Final = ("*",)
"""Stands for every rule that asks people: they ask about an agent's words, and a question or notice is not its."""


RISEN: Final = "it has read more than this session; its report will be held, see `/held`"
"""What a parent is told, once, of a background session that rises above it; after that it hears nothing more of it."""


RISEN_KEY: Final = "-risen"
"""How the idempotency key of that notice ends, behind the run's id."""


def risen_key(run: str) -> str:
    """Return the idempotency key of the notice of a background session that rises above its parent."""
    return f"{run}{RISEN_KEY}"


_HELD: Final = "held-"


def held_key(item: str, sid: str) -> str:
    """Return the idempotency key of the notice that a session holds an item."""
    return f"{_HELD}{item}-{sid}"


_INTERRUPTED: Final = "workflow-"


def interrupted_key(project: str, version: int) -> str:
    """Return the idempotency key of the offer to go on with a workflow that was interrupted at a version."""
    return f"{_INTERRUPTED}{version}-{project}"


class DeliveryState(StrEnum):
    """Where something to be said is. `AMBIGUOUS`: a send whose outcome nobody knows, never repeated silently."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    WITHHELD = "withheld"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


DEAD: Final = frozenset({DeliveryState.AMBIGUOUS, DeliveryState.FAILED, DeliveryState.EXPIRED})
"""What was not said, or nobody knows: a dead letter, which people may have tried again or let go."""


def answer_key(turn: str) -> str:
    """Return the idempotency key of a turn's answer; what is shown of it before it is finished has the same."""
    return f"{turn}-answer"


def told_key(run: str) -> str:
    """Return the idempotency key of what a background session with fields is charged for: its first turn's ending."""
    return f"{run}-told"


def copy_key(run: str) -> str:
    """Return the idempotency key of what a background session's recipient hears, once."""
    return f"{run}-copy"


def question_key(turn: str, asked: str) -> str:
    """Return the idempotency key of a question to people about the approvals that are asked under one id."""
    return f"{turn}-{asked}"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """Something to be said: `key` is its idempotency key, `address` an address' text, `kind` how it is rendered.

    `approved` names the rules that people lifted for it, so that it is not held by these again when it is sent;
    `OURS` for what the program itself says. `hops` is how many sessions it came through, for one that another session
    is to hear, and `asker` the person for whom that or an answer is, empty for the session's own principal. `release`
    is the seq of the event that releases it below its label, 0 for none. `replaces` is the receipt of what was said at
    the address before, in whose place it is to stand. `meant_for` is the principal that it is for, where that is one
    person alone: it is not said there once the place is another's. `authors` are the people beside the asker whose
    words one that another session is to hear derives from, and
    `endorsed` the bounded answers that the session had heard. `refs` are what it came from.
    """

    key: str
    address: str
    text: str
    label: Label
    kind: str = "answer"
    turn: str = ""
    approved: tuple[str, ...] = ()
    hops: int = 0
    release: int = 0
    asker: str = ""
    replaces: str = ""
    meant_for: str = ""
    authors: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session that is begun with something to say, if it is not there: its `home` is an address' text.

    `agent` is what it pins, see `bot.access.agents`. It begins at PUBLIC: what is said there was not read there.
    """

    home: str
    principal: str
    agent: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """An outbox entry, as its sender claimed it.

    `arrival` is what the session that it is for did with it, None until it was handed over, and for other addresses.
    `failures` is how often sending it failed for certain, `receipt` what its channel calls what was said. `doubtful`
    tells that people have it tried again though it may have been said.
    """

    sid: str
    key: str
    address: str
    text: str
    label: Label
    kind: str
    turn: str
    state: DeliveryState
    created_at: int
    attempt: int
    generation: int
    approved: tuple[str, ...]
    hops: int = 0
    release: int = 0
    asker: str = ""
    replaces: str = ""
    meant_for: str = ""
    authors: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()
    arrival: Arrival | None = None
    failures: int = 0
    receipt: str = ""
    doubtful: bool = False
    refs: tuple[Ref, ...] = ()

    @property
    def holds(self) -> tuple[str, str] | None:
        """The item and the session that holds it, of a notice of that, None for any other; see `held_key`.

        Its edit has a key that begins alike.
        """
        if self.replaces or not self.key.startswith(_HELD):
            return None
        item, _, sid = self.key.removeprefix(_HELD).partition("-")
        return item, sid

    @property
    def interrupted(self) -> str:
        """The project of the workflow that it offers to go on with, empty for any other; see `interrupted_key`."""
        if self.replaces or not self.key.startswith(_INTERRUPTED):
            return ""
        return self.key.removeprefix(_INTERRUPTED).partition("-")[2]

    @property
    def asked(self) -> str:
        """The id under which a question asks for approvals; see `question_key`."""
        return self.key.removeprefix(question_key(self.turn, "")).partition("-")[0]


EVERYWHERE: Final = "all"
"""Name of the one rate that counts for a whole channel; any other counts for each place by itself."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once, and one more every `every` milliseconds. What has the same name is counted together."""

    name: str
    every: int
    burst: int


@dataclass(frozen=True, slots=True)
class SendSlot:
    """Something that wants to be said at an address, an address' text.

    `sid` and `key` name the delivery, both empty for what takes no turn, such as an answer to a command.
    """

    address: str
    sid: str = ""
    key: str = ""


class DeliveryPause(StrEnum):
    """What is silent for a while: a channel, a place, an address that is dead, or one text alone."""

    CHANNEL = "channel"
    PLACE = "place"
    ADDRESS = "address"
    TEXT = "text"
