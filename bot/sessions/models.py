"""A session as the store keeps it: its record and status, its turns, and the values of claims and writes.

Times are milliseconds since the epoch on the store's clock. Labels are values, never text; the store writes their text
form.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import Lineage, ResultField
from bot.sessions.background.runs import Background, Charter, Progress, RunFacts, RunStep
from bot.sessions.consents.grants import EndedGrant, GrantUse
from bot.sessions.deliveries import NewDelivery
from bot.sessions.inbox import InboxItem, ItemStatus, Metadata, QueueMode
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.limits import TokenAllowance
from bot.sessions.log.event_types import TurnCompleted, TurnState, YieldReason
from bot.sessions.log.events import Event, NewEvent
from bot.sessions.usage import UNUSED, Usage
from policy.labels import PUBLIC, Label

SCHEMA: Final = 2
"""Version of every stored record; one of another version is refused."""


class Status(StrEnum):
    """The status of a session; `bot.sessions.lifecycle` tells which changes are allowed."""

    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_INPUT = "awaiting_input"
    IDLE = "idle"
    FAILED = "failed"
    PAUSED = "paused"
    ARCHIVED = "archived"
    DELETED = "deleted"


class SessionKind(StrEnum):
    """The kind of a session: a conversation with people, a task that another session gave, or a run."""

    CHAT = "chat"
    TASK = "task"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Turn:
    """The open turn of a session.

    Args:
        id: Its id.
        position: The position of the inbox item that began it.
        dedupe: The dedupe key of that item.
        sender: The principal who wrote that item.
        started_at: When it began, in milliseconds on the store's clock.
        attempt: How often it was claimed, so that a crash shows.
        suspended: Whether it waits for approvals and holds no worker.
        usage: The tokens it used before it was suspended.
        hops: How many sessions its message came through.
        joined: The positions of later items of the same sender that it answers too.
        active: For how many milliseconds it was worked before its last claim.
        handed: How often a worker gave it back unfinished, so that another worker continues it.
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
    """How the last turn ended.

    Args:
        id: The turn's id.
        reason: Why it ended.
        seq: The seq of its full record (`TurnCompleted`).
        result_seq: The seq of its answer, 0 if there is none.
        error: The reference of its error, empty for none.
    """

    id: str
    reason: YieldReason
    seq: int = 0
    result_seq: int = 0
    error: str = ""

    @property
    def state(self) -> TurnState:
        """How it ended, in one word."""
        return TurnState.of(self.reason)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn that ended: its id, the event `seq` of its record, and the time of that in ms on the store's clock."""

    id: str
    seq: int
    completed_at: int
    told: TurnCompleted

    @property
    def started_at(self) -> int:
        """The time it began, in ms on the store's clock."""
        return self.completed_at - self.told.took

    @property
    def active_seconds(self) -> float:
        """For how many seconds it was worked: waiting does not count."""
        return (self.told.took - self.told.idle) / 1000

    @property
    def result_seq(self) -> int:
        """The seq of its answer, 0 if there is none."""
        return self.seq - self.told.back if self.told.back else 0


@dataclass(frozen=True, slots=True)
class Holder:
    """The principal of a session and its status.

    Args:
        principal: The principal.
        status: The status, None for one that only a newer version knows.
        updated_at: The last change, in milliseconds since the epoch on the store's clock.
    """

    principal: str
    status: Status | None
    updated_at: int = 0

    @property
    def open(self) -> bool:
        """Whether it takes new messages."""
        return self.status not in {Status.ARCHIVED, Status.DELETED}


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns, newest first; `before` is the cursor of the next page, None for the last page."""

    turns: tuple[TurnRecord, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class Title:
    """The title of a session, with the label of its writer (law `stored_things_keep_their_label`)."""

    text: str
    label: Label


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session's record. Times are milliseconds since the epoch on the store's clock.

    Args:
        sid: Its id.
        generation: The number of its generation.
        generation_seq: The first event of this generation.
        seq: The head of its log.
        status: Its status.
        taint: The join of the labels of everything admitted in this generation.
        creation: Its creation label.
        inbox_label: The join of the labels of its accepted inputs.
        home: The address it belongs to, as text.
        principal: The principal it acts for.
        created_at: The time of its creation.
        updated_at: The time of its last change.
        waiting_items: How many inputs wait.
        turn: The open turn.
        last_turn: How the last turn ended.
        usage: The tokens used in this generation.
        undelivered: How many outbox entries are not settled.
        stopping: Whether a person asked the open turn to stop.
        lineage: The lineage of a background session, None for any other session.
        ended_at: When a background session or run ended, 0 before that and for conversations.
        given_title: The title that a person gave.
        model: The model that people chose for this generation, empty for the first one of the configuration.
        memory: The use of memories that people chose, None for the agent's own.
        mode: How it takes inputs while a turn runs.
        turned: Its visibility when that first became UNTRUSTED, None while it is TRUSTED.
        unsaid: Whether there may be a dead letter: a hint.
        context_seq: The first event of the context; a recap stands for the events before it (ADR 0027).
        turns_alone: How many turns ended since the last one that a person's message was part of.
        agent: The pin of its agent, see `bot.access.agents`.
        metadata: The metadata that its program keeps with it, None for none.
        charter: The charter of a run, None for any other session.
        progress: The progress of a run, None for any other session.
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
        """The lineage or charter of a session that people do not talk to, None for a conversation."""
        return self.lineage or self.charter

    @property
    def title(self) -> Title | None:
        """The title a person gave, else the title a background session was created with, if any."""
        if self.given_title is None and self.background is not None and self.background.title:
            return Title(self.background.title, self.creation)
        return self.given_title

    @property
    def asks(self) -> bool:
        """Whether its turn waits for people, without a worker."""
        return self.status is Status.AWAITING_INPUT and self.turn is not None and self.turn.suspended

    @property
    def rests(self) -> bool:
        """Whether it is paused until people resume it; a turn that was asked to stop still ends."""
        return self.status is Status.PAUSED and not self.stopping

    @property
    def kind(self) -> SessionKind:
        """Its kind: a task has a parent, a run a charter."""
        if self.charter is not None:
            return SessionKind.RUN
        return SessionKind.CHAT if self.lineage is None else SessionKind.TASK

    @property
    def risen(self) -> bool:
        """Whether it is a background session that has read more than its parent had when it was spawned."""
        return self.lineage is not None and not self.visibility.flows_to(self.lineage.known)

    @property
    def visibility(self) -> Label:
        """The clearance that a reader needs to learn that the session exists (law `no_read_up`)."""
        return self.taint.join(self.creation).join(self.inbox_label)


def run_facts(state: SessionState) -> RunFacts | None:
    """Return the facts of a run, None for any other session."""
    if state.charter is None or state.progress is None:
        return None
    return RunFacts(state.charter, state.progress, state.visibility)


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The part of a session that a caller has read.

    Args:
        generation: The generation that was read.
        context: The first event of the context at that time.
        seq: The last event that was read.
    """

    generation: int
    context: int
    seq: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a session: everything it needs to run a turn, read in one round trip.

    Args:
        sid: The session.
        owner: The lease owner.
        fence: A number that rises with every claim; scripts refuse an older one.
        now: The time on the store's clock, in milliseconds.
        state: The session's record.
        items: The waiting inputs, in order.
        events: The events from the beginning of the context, or from the last one that the worker knows, included.
        approvals: The approvals of this generation.
        audit: The head of the session's audit chain: (n, hash).
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
    """The change that a turn wants to write; each field as in `Write`."""

    events: tuple[NewEvent, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    take: int | None = None
    also: tuple[int, ...] = ()
    settle: tuple[tuple[int, ItemStatus], ...] = ()
    ask: tuple[Approval, ...] = ()
    use: str | None = None
    grant: GrantUse | None = None
    ended: tuple[EndedGrant, ...] = ()
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
    """One atomic change to a claimed session. The taint becomes its join with the labels of the admitted events.

    Args:
        op: Its id: the same `op` again answers as the first time and changes nothing.
        cursor: The log head that it was made against.
        events: The events to append.
        audit: The audit rows to append.
        take: The position of the first waiting item, which is moved into the turn; the last of `events` admitted it.
        also: The positions of the items directly behind it that are parts of the same message, moved along with it.
        settle: Taken or waiting items, by position, with their terminal status.
        ask: The approvals to add.
        use: The id of an approved approval to spend; the write fails unless it is live.
        grant: The use of a grant to spend, once for a call; the write fails unless it is live.
        ended: The grants that cover no call any more.
        turn: The open turn afterwards.
        end: The end of the open turn.
        status: The status afterwards.
        deliver: The outbox entries to add.
        release: Whether to give the lease back in the same step.
        usage: The tokens used, of a whole turn.
        model: The model that people chose, empty for the first one of the configuration; None changes nothing.
        context: The first event of the context from now on; one of `events` then carries the fold of those before it.
        run: The effect of `end` on its run; without an open turn it may end the run by itself.
        acknowledge: The ids of the steering notes in `events`, which count as read from then on.
        memory: The use of memories that people chose; None changes nothing.
    """

    op: str
    cursor: int
    events: tuple[NewEvent, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    take: int | None = None
    also: tuple[int, ...] = ()
    settle: tuple[tuple[int, ItemStatus], ...] = ()
    ask: tuple[Approval, ...] = ()
    use: str | None = None
    grant: GrantUse | None = None
    ended: tuple[EndedGrant, ...] = ()
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
    """The session after a write.

    Args:
        seq: The head of the log.
        taint: The taint.
        now: The time on the store's clock, in milliseconds.
        audit: The head of the audit chain: (n, hash).
        stop: Whether a stop was asked for.
        behind: The keys of deliveries that the sender was not given, since older ones to their address wait.
        waiting: How many inputs wait.
        mode: How the session takes waiting inputs.
        risen: Whether a background session rose above its parent with this write; a notice for the parent is in the
            outbox.
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
    """A request for a page of a principal's sessions.

    Args:
        principal: The principal.
        reader: The clearance that the visibility of a listed session must flow to.
        cursor: The cursor of the page before, empty for the first page.
        limit: The most sessions of a page.
        kind: The kind of sessions to list, None for all.
        since: Leave out sessions last changed before this time, in milliseconds on the store's clock.
        archived: Whether to include archived sessions.
        status: The status of the sessions to list, None for all.
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
    """Sessions, newest first.

    Args:
        sessions: Their records.
        cursor: The cursor of the next page, empty when there is none.
        label: The label of the page, including the fact that a session is missing from it. It is UNTRUSTED if a session
            is or was UNTRUSTED while the reader could see it, wherever it is now (ADR 0025).
    """

    sessions: tuple[SessionState, ...]
    cursor: str
    label: Label = PUBLIC


class Doing(StrEnum):
    """The operation that failed for a session: running its turns, or accepting its inputs."""

    WORK = "work"
    INTAKE = "intake"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A session in quarantine.

    Args:
        sid: The session.
        doing: The operation that failed.
        since: Since when, in milliseconds on the store's clock.
        tries: How often it failed.
        error: The kind of the last error.
        where: The place in the program where it was raised.
        schema: The version of the records that the program knew.
        rest: For how many more milliseconds the session is left alone.
    """

    sid: str
    doing: Doing
    since: int
    tries: int
    error: str
    where: str
    schema: int
    rest: int


MOMENT: Final = "the topic of this conversation at the moment"
"""The topic of a recap when the caller named none."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A recap of the first `upto` events of a generation.

    It has no label of its own: it is labelled with the session's taint when it is written.

    Args:
        text: The recap.
        upto: The number of events it covers.
        topic: Its topic; a recap with a topic leaves out everything else.
        messages: How many messages and answers it stands for.
    """

    text: str
    upto: int
    topic: str = ""
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Inspection:
    """A question about held items, for one request to a model.

    Args:
        question: The question.
        texts: The texts of the items.
        fields: The fields of the answer, none for a text.
        before: The taint of the asking session before the call, at which a fixed number of tokens is charged.
        call: The id of the call.
        veil: Why the items may not be shown to the model, empty if they may.
        allowance: The session's own token budget, None for none.
    """

    question: str
    texts: tuple[str, ...]
    fields: tuple[ResultField, ...]
    before: Label
    call: str
    veil: str
    allowance: TokenAllowance | None


@dataclass(frozen=True, slots=True)
class Inspected:
    """The answer of a model to a question about held items, or else `why` there is none.

    `usage` is the use of models, None if none was asked.
    """

    text: str
    why: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Recapped:
    """The result of a request for a recap: the summary, or else `why` there is none; `usage` in either case."""

    summary: Summary | None
    usage: Usage
    why: str = ""
