"""The frozen values of a session: events, inbox items, turns, approvals, outbox entries, state.

Times are milliseconds since the epoch on the store's clock. Labels are values, never text; the store
writes their text form. Bodies are JSON objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import JsonValue

from policy.labels import PUBLIC, Label

JsonObject: TypeAlias = Mapping[str, JsonValue]

SCHEMA: Final = 1
"""Version of every stored record; a store holding a newer one is refused."""


class Status(StrEnum):
    """What a session is doing; `lifecycle` says how it may move."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_INPUT = "awaiting_input"
    IDLE = "idle"
    FAILED = "failed"
    ARCHIVED = "archived"


class YieldReason(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    NEEDS_INPUT = "needs_input"
    ERROR = "error"
    MAX_TURNS = "max_turns"
    CANCELED = "canceled"


class EventType(StrEnum):
    """What an event of the log tells."""

    SESSION_CREATED = "session.created"
    SESSION_RESET = "session.reset"
    USER_MESSAGE = "user.message"
    AGENT_MESSAGE = "agent.message"
    AGENT_THINKING = "agent.thinking"
    TURN_STARTED = "turn.started"
    TURN_COMPLETED = "turn.completed"
    TOOL_CALL = "tool.call"
    TOOL_RESULT = "tool.result"
    POLICY_DECISION = "policy.decision"
    TAINT_RAISED = "taint.raised"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_RESOLVED = "approval.resolved"
    ERROR = "error.turn"


class Visibility(StrEnum):
    """Who an event is meant for: the people in the chat, those watching progress, or operators."""

    USER = "user"
    PROGRESS = "progress"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before the store gave it a place.

    `admitted` tells that its content entered the context, so its label counts for the taint (law
    `taint_is_the_fold`). `turn` is the id of the turn it belongs to, empty outside one.
    """

    type: EventType
    actor: str
    label: Label
    body: JsonObject
    visibility: Visibility = Visibility.INTERNAL
    admitted: bool = False
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log: seq 1, 2, 3 … without gaps, whatever the generation."""

    seq: int
    ts: int
    generation: int
    type: EventType
    actor: str
    label: Label
    body: JsonObject
    visibility: Visibility
    admitted: bool
    turn: str


class ItemStatus(StrEnum):
    """Where an accepted input is: the last four are terminal (law `accepted_once_in_order`)."""

    WAITING = "waiting"
    TAKEN = "taken"
    CONSUMED = "consumed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class NewItem:
    """An input to accept.

    `sid` is the session it is for, which is created from `home` (an address' text), `principal` and
    `creation` if it does not exist. `dedupe` identifies the input on its platform: the same key with
    the same `body` is the same input. `sender` is the principal who wrote it, `label` its inbound label.
    """

    sid: str
    dedupe: str
    sender: str
    label: Label
    body: JsonObject
    home: str
    principal: str
    creation: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An accepted input: `position` counts 1, 2, 3 … within its session."""

    position: int
    dedupe: str
    sender: str
    label: Label
    body: JsonObject
    accepted_at: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receipt of an accepted input; `duplicate` tells that it had been accepted before."""

    position: int
    status: ItemStatus
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What models were asked, in tokens; `complete` is false when a provider did not say."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; unknown stays unknown."""
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.complete and other.complete,
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """The open turn of a session.

    `position` is the inbox item it answers, `sender` who wrote that. `attempt` counts claims, so that
    a crash shows. `suspended` tells that it waits for approvals and holds no worker. `usage` is what it used
    before it was suspended.
    """

    id: str
    position: int
    dedupe: str
    sender: str
    started_at: int
    attempt: int = 1
    suspended: bool = False
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class LastTurn:
    """How the last turn ended; `result_seq` is the event holding its answer, 0 if there is none."""

    id: str
    reason: YieldReason
    started_at: int
    completed_at: int
    attempt: int
    result_seq: int = 0
    error: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's record.

    `seq` is the head of its log; events from `generation_seq` on are of this generation. `undelivered` counts
    what is in the outbox and not settled. `stopping` tells that a person asked the open turn to stop.
    """

    sid: str
    generation: int
    generation_seq: int
    seq: int
    status: Status
    taint: Label
    creation: Label
    inbox_label: Label
    home: str
    principal: str
    created_at: int
    updated_at: int
    waiting_items: int
    turn: Turn | None
    last_turn: LastTurn | None
    usage: Usage
    undelivered: int = 0
    stopping: bool = False

    @property
    def visibility(self) -> Label:
        """What a reader must be cleared for to learn that the session exists (law `no_read_up`)."""
        return self.taint.join(self.creation).join(self.inbox_label)


class ApprovalState(StrEnum):
    """Where a question to people is; only `APPROVED` may be used, once."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Approval:
    """A durable question, bound to exact arguments, label and principal.

    `binding` is the digest of (tool, arguments, taint, principal, generation); `call` the id of the tool
    call it is for. `question` is what people are shown. `expires_at` is on the store's clock.
    """

    id: str
    sid: str
    generation: int
    turn: str
    call: str
    tool: str
    binding: str
    label: Label
    principal: str
    question: JsonObject
    rules: tuple[str, ...]
    expires_at: int
    state: ApprovalState = ApprovalState.PENDING
    resolved_by: str = ""


class DeliveryState(StrEnum):
    """Where something to be said is. `AMBIGUOUS`: a send whose outcome nobody knows, never repeated silently."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    WITHHELD = "withheld"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """Something to be said: `key` is its idempotency key, `address` an address' text, `kind` how it is rendered.

    `approved` tells that people approved it, so that it is not held for them again when it is sent.
    """

    key: str
    address: str
    text: str
    label: Label
    kind: str = "answer"
    turn: str = ""
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """An outbox entry, as its sender claimed it."""

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
    approved: bool


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of an audit chain before it is chained: who, what was asked, what was decided, under which policy."""

    kind: str
    actor: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A chained row: `hash` covers `previous` and everything else in the record."""

    n: int
    ts: int
    kind: str
    actor: str
    body: JsonObject
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a session: everything it needs to run a turn, read in one round trip.

    `fence` rises with every claim; a script refuses an older one. `events` are those of this
    generation after the cursor the worker named, `items` the waiting inputs in order.
    """

    sid: str
    owner: str
    fence: int
    now: int
    state: SessionState
    items: tuple[InboxItem, ...]
    events: tuple[Event, ...]
    approvals: tuple[Approval, ...]
    audit: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Write:
    """One atomic change to a claimed session.

    `op` identifies it: the same `op` again answers as the first time and changes nothing. `cursor` is
    the log head it was made against. The taint becomes its join with
    the labels of the admitted `events`. `take` removes the first
    waiting item, which must be at that position, into the turn; `settle` gives a taken or waiting
    item its terminal status. `ask` adds approvals; `use` spends an approved one and fails unless it is
    live. `turn`: the open turn afterwards; `end` closes it. `deliver` adds outbox entries, `release`
    gives the lease back in the same step.
    """

    op: str
    cursor: int
    events: tuple[NewEvent, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    take: int | None = None
    settle: tuple[tuple[int, ItemStatus], ...] = ()
    ask: tuple[Approval, ...] = ()
    use: str | None = None
    turn: Turn | None = None
    end: LastTurn | None = None
    status: Status | None = None
    deliver: tuple[NewDelivery, ...] = ()
    release: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left behind: the log head, the taint, the clock, and the audit head."""

    seq: int
    taint: Label
    now: int
    audit: tuple[int, str]
    stop: bool
