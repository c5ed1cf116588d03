"""What the API answers, as frozen values.

Times are milliseconds since the epoch, and labels are text, as in `INTERNAL{hr}~`.
"""

from typing import Literal

from pydantic import Field, JsonValue

from lockgate.transport import Told

EventLevel = Literal["user", "progress", "internal"]
"""How much of a log is told: what people in a chat see, what goes on besides, and what operators look at."""

EventChoice = Literal["user", "progress"]
"""The least of these levels that a program asks for."""

MessageMode = Literal["queue", "collect", "steer", "interrupt"]
"""What becomes of a message that comes while a turn runs."""

RunKind = Literal["autonomous", "manual"]
"""Whether a run goes on by itself, or waits for messages to its session."""

NotePriority = Literal["normal", "urgent", "abort"]
"""How a steering note counts: stop and pivot, or finish safely and end."""

ScheduledKind = Literal["run", "reminder"]
"""What a schedule does."""


class Whoami(Told):
    """Who this token is, and what it may; `expires_at` is 0 for never."""

    name: str
    principal: str
    scope: str
    clearance: str
    expires_at: int


class CreatedSession(Told):
    """A session that was begun, or that was there under its key; it says nothing of what the session did since."""

    id: str
    created: bool
    created_at: int


class SentMessage(Told):
    """A message that was accepted; `seq` is its number among what the session was sent."""

    seq: int


class EndedTurn(Told):
    """How the last turn ended.

    `state` is `ok`, `error` or `canceled`. `result_event_id` is the number of the event that holds its answer.
    """

    id: str
    state: str
    yield_reason: str
    result_event_id: int | None


class TokensUsed(Told):
    """What models were asked for; `complete` is False where not all tokens are known, `priced` where not all cost is.

    `cost` is in millionths of a dollar.
    """

    requests: int
    input_tokens: int
    output_tokens: int
    cost: int
    complete: bool
    priced: bool


class SessionTurn(Told):
    """A turn, as it ended or as it goes on; `state` is `running` then, and what is not known yet is None."""

    id: str
    state: str
    yield_reason: str | None
    attempt: int
    started_at: int
    completed_at: int | None
    active_seconds: float | None
    usage: TokensUsed | None
    error: str | None
    result_event_id: int | None


class SessionTurns(Told):
    """A page of turns, newest first; `next` is the `before` of the next page, None at the end."""

    turns: tuple[SessionTurn, ...]
    next: int | None


class Session(Told):
    """A session as it is now: `taint` is the label of all that it has read, `waiting` counts its messages that wait."""

    id: str
    status: str
    kind: str
    agent: str
    title: str | None
    taint: str
    mode: MessageMode
    waiting: int
    created_at: int
    updated_at: int
    last_turn: EndedTurn | None
    usage: TokensUsed
    metadata: dict[str, JsonValue] | None


class SessionList(Told):
    """A page of sessions, newest first; `cursor` asks for the next one, None at the end."""

    sessions: tuple[Session, ...]
    cursor: str | None


class ResultBody(Told):
    """The answer of a turn: the event that holds it. That of an agent's message has its text as `text`."""

    type: str
    level: EventLevel
    body: dict[str, JsonValue]


class SessionResult(Told):
    """How the last turn ended and what it came to; None where there is none, or where it may not be told.

    `inputs` are the numbers of the messages that this turn took in, as `SentMessage.seq` has them; the first message of
    a session is 1.
    """

    status: str
    last_turn: EndedTurn | None
    result: ResultBody | None
    inputs: tuple[int, ...]

    @property
    def busy(self) -> bool:
        """Whether a turn runs or is about to, so that another result follows."""
        return self.status in {"queued", "running"}


class SentCopies(Told):
    """Messages that were sent somewhere; `address` is None for chats that this token may not know of."""

    address: str | None
    messages: int


class HandedCopies(Told):
    """Messages that another session was given."""

    session: str
    messages: int


class DeletedSession(Told):
    """What was deleted, and which copies are beyond reach, as far as this token may know.

    `children` counts the background sessions that went along, `files_left` tells that files could not be erased yet,
    and `kept` why servers of the store keep their files as they are, for now.
    """

    children: int
    sent: tuple[SentCopies, ...]
    handed: tuple[HandedCopies, ...]
    files_left: bool
    kept: tuple[str, ...]


class SessionEvent(Told):
    """An event of a session's log. `body` is what its type says (docs/api.md)."""

    id: str
    seq: int
    ts: int
    actor: str
    type: str
    level: EventLevel
    label: str
    body: dict[str, JsonValue]
    turn_id: str | None = None


class EventPage(Told):
    """A page of a log; `next` is the number after which the next page begins, None at the end."""

    events: tuple[SessionEvent, ...]
    next: int | None


class StreamEnd(Told):
    """Why a stream ended."""

    reason: str


class AgentQuestion(Told):
    """What an agent asks its program: `text`, None where a rule keeps it back. `takes` says what fits, in words."""

    id: str
    session: str
    state: str
    text: str | None
    takes: str
    default: bool | int | float | str | None
    expires_at: int
    label: str


class QuestionPage(Told):
    """The questions of a session's agent, the next to end first."""

    questions: tuple[AgentQuestion, ...]


class WaitingApproval(Told):
    """A call that waits for an approval. `asks` is None where it is kept back."""

    id: str
    session: str
    kind: str
    tool: str
    principal: str
    asks: dict[str, JsonValue] | None
    rules: tuple[str, ...]
    state: str
    may_approve: bool
    expires_at: int
    label: str


class ApprovalList(Told):
    """The calls that wait."""

    approvals: tuple[WaitingApproval, ...]


class SettledApprovals(Told):
    """The calls that were answered, and how many of the same question wait for somebody else."""

    approvals: tuple[WaitingApproval, ...]
    waiting: int


class Simulation(Told):
    """What the gate would decide."""

    report: dict[str, JsonValue]


class ImportedCopy(Told):
    """A session that was brought in, archived. `known` tells that the same file was brought in before."""

    id: str
    label: str
    entries: int
    known: bool


class AuditEntry(Told):
    """A row of the audit; `id` is `CHAIN:NAME`."""

    id: str
    ts: int
    kind: str
    actor: str
    body: dict[str, JsonValue]
    label: str


class AuditPage(Told):
    """Rows of a chain, oldest first."""

    rows: tuple[AuditEntry, ...]


class AuditChain(Told):
    """A chain of the audit."""

    name: str
    intact: bool


class CheckedAudit(Told):
    """The chains that were checked; `complete` tells that they are all that this token may know of."""

    chains: tuple[AuditChain, ...]
    complete: bool


class LineageItem(Told):
    """One thing of a trace; the constant one of what is not shown has an id, a kind and a title alone."""

    id: str
    kind: str
    title: str
    label: str | None = None
    at: int | None = None
    where: str | None = None
    depth: int | None = None


class LineageLink(Told):
    """`target` came from `source`."""

    source: str
    target: str


class LineagePage(Told):
    """A page of a trace, the nearest first; `cursor` asks for the next one."""

    start: tuple[str, ...]
    direction: str
    nodes: tuple[LineageItem, ...]
    edges: tuple[LineageLink, ...]
    cursor: str | None = None
    complete: bool


class StartedRun(Told):
    """A run that was started."""

    id: str


class Run(Told):
    """A run as it is now; `session` is the session that it is, `taint` the label of all that it has read.

    `status` is `running`, `waiting` for people, `paused`, `stopped` or `ended`. What is not known yet is None.
    """

    id: str
    session: str
    type: RunKind
    status: str
    title: str | None
    taint: str
    slot: str
    started_at: int
    deadline: int
    initialized: bool
    current_task: str | None
    tasks_completed: int
    tasks_failed: int
    tasks_skipped: int
    consecutive_failures: int
    breaker: str
    turns: int
    waiting_notes: int
    next_action: str | None
    schedule: str | None
    ended_at: int | None
    reason: str | None


class RunPage(Told):
    """A page of runs, newest first; `cursor` asks for the next one, None at the end."""

    runs: tuple[Run, ...]
    cursor: str | None


class RunStats(Told):
    """A run in numbers. Rates are shares of the tasks that are done with; what is not known is None.

    `cost` is in millionths of a dollar.
    """

    runtime_seconds: float
    tasks_completed: int
    tasks_failed: int
    tasks_skipped: int
    completion_rate: float | None
    failure_rate: float | None
    skip_rate: float | None
    seconds_per_task: float | None
    turns: int
    tokens: int | None
    cost: int | None


class SentNote(Told):
    """A steering note that waits for the run's next heartbeat."""

    id: str


class ScheduledWork(Told):
    """A schedule or reminder; `label` is what it keeps. `cron` is None for one that is due once."""

    id: str
    kind: ScheduledKind
    status: str
    title: str | None
    text: str
    label: str
    cron: str | None
    time_zone: str
    next_at: int | None
    created_at: int
    deliver_to: str | None
    overlap: str
    by_agent: bool
    last_at: int | None
    last_run: str | None
    failures: int
    skipped: int


class SchedulePage(Told):
    """Schedules, the oldest first."""

    schedules: tuple[ScheduledWork, ...]


class KnownFact(Told):
    """A memory; `text` is None where it is erased or a rule keeps it back. `label` is what it was learned with."""

    id: str
    text: str | None
    domain: str | None
    label: str
    state: str
    learned_at: int
    asker: str
    by_agent: bool
    session: str | None
    corrects: str | None
    corrected_by: str | None
    ended_at: int | None


class KnownFactInFull(KnownFact):
    """A memory with how often it was recalled, as far as this token may know."""

    uses: int


class KnownFactPage(Told):
    """Memories, newest first; `cursor` asks for the next page, None at the end."""

    memories: tuple[KnownFact, ...]
    cursor: str | None


class FoundMemories(Told):
    """Memories that fit a query, the best first."""

    memories: tuple[KnownFact, ...]


class TaughtMemory(Told):
    """The id of a memory that was learned."""

    id: str


class WebhookEntry(Told):
    """A webhook. `failing` is since when nothing was taken there, `disabled` why nothing is sent any more."""

    id: str
    url: str
    level: EventLevel
    types: tuple[str, ...]
    sessions: tuple[str, ...]
    created_at: int
    failing: int | None
    disabled: str | None


class SecretWebhook(WebhookEntry):
    """A webhook with its secret, which is told once."""

    secret: str = Field(repr=False)


class WebhookPage(Told):
    """Webhooks, the oldest first."""

    webhooks: tuple[WebhookEntry, ...]


class DeadEvent(Told):
    """An event that was not taken, however often it was tried; `again` tells that it is tried once more."""

    id: str
    webhook: str
    session: str
    seq: int
    failed_at: int
    attempts: int
    error: str
    again: bool


class DeadEventPage(Told):
    """Events that were not taken, the oldest first of each webhook."""

    dead: tuple[DeadEvent, ...]


class Redelivered(Told):
    """An event that is tried once more."""

    id: str


class WebhookData(Told):
    """The event that a webhook's request tells, None for the one that ends what is told of a session."""

    session: str
    event: SessionEvent | None = None


class WebhookMessage(Told):
    """What a webhook's request tells. `type` is that of the event, or `session.unavailable`."""

    type: str
    timestamp: str
    data: WebhookData
