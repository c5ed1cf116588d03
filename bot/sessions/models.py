"""A session as the store keeps it: its state and status, its turns, and what a claim reads and a write changes.

Times are milliseconds since the epoch on the store's clock. Labels are values, never text; the store
writes their text form.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Lineage
from bot.sessions.background.runs import Background, Charter, Progress, RunFacts, RunStep
from bot.sessions.deliveries import NewDelivery
from bot.sessions.inbox import InboxItem, ItemStatus, Metadata, QueueMode
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.log.event_types import TurnCompleted, TurnState, YieldReason
from bot.sessions.log.events import Event, NewEvent
from bot.sessions.usage import UNUSED, Usage
from policy.labels import PUBLIC, Label

SCHEMA: Final = 2
"""Version of every stored record; one of another version is refused."""


class Status(StrEnum):
    """What a session is doing; `bot.sessions.lifecycle` says how it may move."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_INPUT = "awaiting_input"
    IDLE = "idle"
    FAILED = "failed"
    PAUSED = "paused"
    ARCHIVED = "archived"
    DELETED = "deleted"


class SessionKind(StrEnum):
    """What a session is: a conversation with people, a task that another session gave, or a run."""

    CHAT = "chat"
    TASK = "task"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Turn:
    """The open turn of a session.

    `position` is the inbox item that began it, `sender` who wrote that, `joined` are the positions of those that he
    sent behind it and that it answers too. `attempt` counts claims, so that a crash shows. `suspended` tells that it
    waits for approvals and holds no worker. `usage` is what it used before it was suspended, and `active` for how many
    milliseconds it was worked before it was claimed last. `hops` is how many sessions its message came through.
    `handed` is how often a worker gave it back unfinished, so that another one goes on with it.
    """

    id: str
    position: int
    dedupe: str
    sender: str
    started_at: int
    attempt: int = 1
    suspended: bool = False
    usage: Usage = UNUSED
    hops: int = 0
    joined: tuple[int, ...] = ()
    active: int = 0
    handed: int = 0


@dataclass(frozen=True, slots=True)
class LastTurn:
    """How the last turn ended; `seq` is the event that tells of that in full (`TurnCompleted`).

    `result_seq` is the event that holds its answer, 0 if there is none.
    """

    id: str
    reason: YieldReason
    seq: int = 0
    result_seq: int = 0
    error: str = ""

    @property
    def state(self) -> TurnState:
        """How it ended, in a word."""
        return TurnState.of(self.reason)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn that ended: its id, the event `seq` that tells of it, and when that was, in ms on the store's clock."""

    id: str
    seq: int
    completed_at: int
    told: TurnCompleted

    @property
    def started_at(self) -> int:
        """When it began, in ms on the store's clock."""
        return self.completed_at - self.told.took

    @property
    def active_seconds(self) -> float:
        """For how long it was worked: waiting does not count."""
        return (self.told.took - self.told.idle) / 1000

    @property
    def result_seq(self) -> int:
        """The event that holds its answer, 0 if there is none."""
        return self.seq - self.told.back if self.told.back else 0


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a session is, and its `status`, None for one that only a newer version knows.

    `updated_at` is when it changed last, in milliseconds since the epoch.
    """

    principal: str
    status: Status | None
    updated_at: int = 0

    @property
    def open(self) -> bool:
        """Whether it can be spoken in."""
        return self.status not in {Status.ARCHIVED, Status.DELETED}


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns, newest first; `before` asks for those that ended before them, None where there are none."""

    turns: tuple[TurnRecord, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class Title:
    """What a session is called, with the label of whoever wrote it (law `stored_things_keep_their_label`)."""

    text: str
    label: Label


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's record.

    `seq` is the head of its log; events from `generation_seq` on are of this generation, and a context is made of those
    from `context_seq` on: what was before them, a recap among them stands for (ADR 0027). `undelivered` counts
    what is in the outbox and not settled. `stopping` tells that a person asked the open turn to stop. `lineage` is
    that of a background session, None for a conversation; `ended_at` is 0 until it has done its task. `model` is the
    one that people chose for this generation, empty for the first of the configuration. `mode` is how it takes what
    comes while a turn runs. `turned` is its visibility when that first was UNTRUSTED, None as long as it is TRUSTED.
    `unsaid` hints that there may be something that could not be delivered. `turns_alone` is how many turns ended since
    the last one that a person's message was part of. `agent` is the pin of its agent, see `bot.access.agents`.
    `metadata` is what the program whose it is keeps with it, None for nothing. `charter` and `progress` are those of a
    run, None for any other session; `ended_at` is when that ended.
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
    lineage: Lineage | None = None
    ended_at: int = 0
    given_title: Title | None = None
    model: str = ""
    memory: MemoryUse | None = None
    mode: QueueMode = QueueMode.COLLECT
    turned: Label | None = None
    unsaid: bool = False
    context_seq: int = 1
    turns_alone: int = 0
    agent: str = ""
    metadata: Metadata | None = None
    charter: Charter | None = None
    progress: Progress | None = None

    @property
    def background(self) -> Background | None:
        """What a session works by that nobody talks to: its lineage or its charter, None for a conversation."""
        return self.lineage or self.charter

    @property
    def title(self) -> Title | None:
        """The title a person gave, else the one that it was begun with in the background, if any."""
        if self.given_title is None and self.background is not None and self.background.title:
            return Title(self.background.title, self.creation)
        return self.given_title

    @property
    def asks(self) -> bool:
        """Whether its turn waits for people, without a worker."""
        return self.status is Status.AWAITING_INPUT and self.turn is not None and self.turn.suspended

    @property
    def rests(self) -> bool:
        """Whether nothing goes on in it until people resume it; a turn that was stopped is still ended."""
        return self.status is Status.PAUSED and not self.stopping

    @property
    def kind(self) -> SessionKind:
        """What it is: a task has a parent, a run a charter."""
        if self.charter is not None:
            return SessionKind.RUN
        return SessionKind.CHAT if self.lineage is None else SessionKind.TASK

    @property
    def risen(self) -> bool:
        """Whether it is a background session that has read what its parent had not when it was spawned."""
        return self.lineage is not None and not self.visibility.flows_to(self.lineage.known)

    @property
    def visibility(self) -> Label:
        """What a reader must be cleared for to learn that the session exists (law `no_read_up`)."""
        return self.taint.join(self.creation).join(self.inbox_label)


def run_facts(state: SessionState) -> RunFacts | None:
    """Return how the run that a session is stands, None for any other session."""
    if state.charter is None or state.progress is None:
        return None
    return RunFacts(state.charter, state.progress, state.visibility)


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """What somebody has read of a session: its `generation` up to the event `seq`, when contexts began at `context`."""

    generation: int
    context: int
    seq: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a session: everything it needs to run a turn, read in one round trip.

    `fence` rises with every claim; a script refuses an older one. `events` are those from where a context begins, or
    from the last one on that the worker knows, itself included; `items` the waiting inputs in order.
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
class Change:
    """What a turn wants written; each field as in `Write`."""

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
    usage: Usage = UNUSED
    context: int | None = None
    run: RunStep | None = None
    acknowledge: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """One atomic change to a claimed session.

    `op` identifies it: the same `op` again answers as the first time and changes nothing. `cursor` is the log head it
    was made against. The taint becomes its join with the labels of the admitted `events`. `take` removes the first
    waiting item, which must be at that position, into the turn; the last of `events` is noted as what let it in.
    `settle` gives a taken or waiting item its terminal status. `ask` adds approvals; `use` spends an approved one and
    fails unless it is live. `turn`: the open turn afterwards; `end` closes it. `deliver` adds outbox entries, `release`
    gives the lease back in the same step. `usage` is what was used, of a turn in all. `model`
    is from now on the one that was chosen, empty for the first of the configuration; None changes nothing. So is
    `memory` what is done with memories. `context` is
    the seq from which a context is made from now on: one of `events` then carries what was before it. `run` is what
    the `end` means for its run; without an open turn it may end the run by itself. `acknowledge` are the ids of the
    steering notes that `events` tell of, which are read from then on.
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
    usage: Usage = UNUSED
    model: str | None = None
    context: int | None = None
    run: RunStep | None = None
    acknowledge: tuple[str, ...] = ()
    memory: MemoryUse | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left behind: the log head, the taint, the clock, and the audit head.

    `behind` are the keys of deliveries that the sender was not given, since older ones to their address wait. `waiting`
    is how many inputs wait, and `mode` how the session takes them, as of then. `risen` tells that with this write a
    background session rose above its parent, for whom a notice is in the outbox.
    """

    seq: int
    taint: Label
    now: int
    audit: tuple[int, str]
    stop: bool
    behind: frozenset[str] = frozenset()
    waiting: int = 0
    mode: QueueMode = QueueMode.COLLECT
    risen: bool = False


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A question for a page of a principal's sessions whose visibility flows to `reader`.

    `cursor` is that of the page before, empty for the first. `since` leaves out what changed last before that moment,
    in milliseconds on the store's clock. `archived` asks for those that are archived, too. `status` is what they do.
    """

    principal: str
    reader: Label
    cursor: str = ""
    limit: int = 50
    kind: SessionKind | None = None
    since: int = 0
    archived: bool = False
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Sessions, newest first; `cursor` asks for the next page, and is empty when there is none.

    `label` is that of what the page tells, also by what is missing from it. It is UNTRUSTED if a session is or was so
    while the reader could see it, wherever it is now (ADR 0025).
    """

    sessions: tuple[SessionState, ...]
    cursor: str
    label: Label = PUBLIC


class Doing(StrEnum):
    """What could not be done with a session: running its turns, or taking in what is said to it."""

    WORK = "work"
    INTAKE = "intake"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A session in quarantine, since when and how often it failed, and with what.

    `since` is in milliseconds on the store's clock. It is left alone for `rest` more milliseconds. `error` is the kind
    of the last error, `where` the place in the program. `schema` is the version of the records that the program knew.
    """

    sid: str
    doing: Doing
    since: int
    tries: int
    error: str
    where: str
    schema: int
    rest: int


MOMENT: Final = "what this conversation is about at the moment"
"""The topic of a recap where none was named."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A recap of the first `upto` events of a generation.

    One with a `topic` leaves out what is not about it. `messages` is how many messages and answers it stands for.
    It has no label of its own: it is labelled with the session's taint when it is written.
    """

    text: str
    upto: int
    topic: str = ""
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Recapped:
    """What asking for a recap gave: the summary, or else `why` there is none; `usage` in either case."""

    summary: Summary | None
    usage: Usage
    why: str = ""
