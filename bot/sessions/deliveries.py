"""Deliveries: outbox entries from their commit to their receipt, and the rates at which they may be sent.

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
"""Stands for every rule that asks people: such rules judge an agent's words; a question or notice is not an agent's."""


RISEN: Final = "it has read more than this session; its report will be held, see `/held`"
"""The one notice to a parent about a background session that rises above it; the parent hears nothing more of it."""


RISEN_KEY: Final = "-risen"
"""The end of the idempotency key of that notice, after the run's id."""


def risen_key(run: str) -> str:
    """Return the idempotency key of the notice of a background session that rises above its parent."""
    return f"{run}{RISEN_KEY}"


_HELD: Final = "held-"


def held_key(item: str, sid: str) -> str:
    """Return the idempotency key of the notice that a session holds an item."""
    return f"{_HELD}{item}-{sid}"


_INTERRUPTED: Final = "workflow-"


def interrupted_key(project: str, version: int) -> str:
    """Return the idempotency key of the offer to continue a workflow that was interrupted at a version."""
    return f"{_INTERRUPTED}{version}-{project}"


_SOON: Final = "-soon"


def reminder_key(question: str) -> str:
    """Return the idempotency key of the one reminder of a question's copy with this key."""
    return f"{question}{_SOON}"


class DeliveryState(StrEnum):
    """The state of a delivery. `AMBIGUOUS`: a send with an unknown outcome, repeated only by a person's decision."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    WITHHELD = "withheld"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


DEAD: Final = frozenset({DeliveryState.AMBIGUOUS, DeliveryState.FAILED, DeliveryState.EXPIRED})
"""The states of a dead letter: it was not delivered, or the outcome is unknown. People may retry or drop it."""


def answer_key(turn: str) -> str:
    """Return the idempotency key of a turn's answer; previews of the unfinished answer have the same key."""
    return f"{turn}-answer"


def told_key(run: str) -> str:
    """Return the idempotency key of the charged answer of a background session with fields: its first turn's answer."""
    return f"{run}-told"


def copy_key(run: str) -> str:
    """Return the idempotency key of the one copy of a background session's result for its recipient."""
    return f"{run}-copy"


def question_key(turn: str, asked: str) -> str:
    """Return the idempotency key of a question to people about the approvals that are asked under one id."""
    return f"{turn}-{asked}"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to add.

    Args:
        key: Its idempotency key.
        address: The address, as text.
        text: The text.
        label: The label of the text.
        kind: How it is rendered.
        turn: The turn it belongs to, empty for none.
        approved: The rules that people lifted for it, which do not hold it back again when it is sent; `OURS` for texts
            of the program itself.
        hops: How many sessions it came through, for a delivery to another session.
        release: The seq of the event that releases it below its label, 0 for none.
        asker: The person that an answer, or a delivery to a session, is for; empty for the session's own principal.
        replaces: The receipt of an earlier message at the address that it replaces.
        meant_for: The principal it is for, if it is one person's alone: it is not sent once the place is another's.
        authors: For a delivery to another session, the people beside the asker whose words it derives from.
        endorsed: The bounded answers that the session had heard.
        refs: The sources that it came from.
        untrusted: Whether its text is UNTRUSTED and was passed on unread, so that it is marked.
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
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session that is created with its first delivery, if it does not exist. It begins at PUBLIC.

    Args:
        home: Its home, as address text.
        principal: Its principal.
        agent: The pin of its agent, see `bot.access.agents`.
    """

    home: str
    principal: str
    agent: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """An outbox entry, as its sender claimed it; other fields are as in `NewDelivery`.

    Args:
        sid: The session.
        state: Its state.
        created_at: When it was added, in milliseconds on the store's clock.
        attempt: How often it was claimed.
        generation: The generation it belongs to.
        arrival: Its arrival at a target session, None before that and for other addresses.
        failures: How often sending it failed for certain.
        receipt: The channel's id of the sent message.
        doubtful: Whether people have it retried although it may have been delivered.
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
    untrusted: bool = False

    @property
    def holds(self) -> tuple[str, str] | None:
        """The item and the holding session of a notice about a held item, None for any other; see `held_key`.

        The edit of such a notice has a key that begins alike.
        """
        if self.replaces or not self.key.startswith(_HELD):
            return None
        item, _, sid = self.key.removeprefix(_HELD).partition("-")
        return item, sid

    @property
    def interrupted(self) -> str:
        """The project of the interrupted workflow that it offers to continue, else empty; see `interrupted_key`."""
        if self.replaces or not self.key.startswith(_INTERRUPTED):
            return ""
        return self.key.removeprefix(_INTERRUPTED).partition("-")[2]

    @property
    def reminds(self) -> bool:
        """Whether it reminds of the question that is `asked`; see `reminder_key`."""
        return self.key.startswith(question_key(self.turn, "")) and self.key.endswith(_SOON)

    @property
    def asked(self) -> str:
        """The id under which a question asks for approvals, or of that which it reminds of; see `question_key`."""
        return self.key.removeprefix(question_key(self.turn, "")).partition("-")[0]


EVERYWHERE: Final = "all"
"""The name of the one rate that counts for a whole channel; any other rate counts for each place by itself."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once, and one more every `every` milliseconds. Rates of the same name share one count."""

    name: str
    every: int
    burst: int


@dataclass(frozen=True, slots=True)
class SendSlot:
    """A send that waits for its turn at an address, as text.

    `sid` and `key` name the delivery; both are empty for a send that takes no turn, such as an answer to a command.
    """

    address: str
    sid: str = ""
    key: str = ""


class DeliveryPause(StrEnum):
    """The subject of a pause: a channel, a place, a dead address, or one text alone."""

    CHANNEL = "channel"
    PLACE = "place"
    ADDRESS = "address"
    TEXT = "text"
