"""The API's answers, as frozen values.

Times are milliseconds since the epoch, and labels are text, as in `INTERNAL{hr}~`.
"""

from typing import Literal

from pydantic import Field, JsonValue

from lockgate.transport import Told

EventLevel = Literal["user", "progress", "internal"]
"""The part of a log: the events that people see in a chat, also the progress, or also the details for operators."""

EventChoice = Literal["user", "progress"]
"""The least of these levels that a program asks for."""

MessageMode = Literal["queue", "collect", "steer", "interrupt"]
"""The treatment of a message that comes while a turn runs."""

RunKind = Literal["autonomous", "manual"]
"""Whether a run goes on by itself, or waits for messages to its session."""

NotePriority = Literal["normal", "urgent", "abort"]
"""How a steering note counts: stop and pivot, or finish safely and end."""

ScheduledKind = Literal["run", "reminder"]
"""The work that a schedule starts."""


class Whoami(Told):
    """The name and rights of this token."""

    name: str
    principal: str
    scope: str
    clearance: str
    expires_at: int
    """Milliseconds since 1970, 0 for never."""


class CreatedSession(Told):
    """A session that was begun, or that exists under its key; it tells nothing of the session's state."""

    id: str
    created: bool
    created_at: int


class SentMessage(Told):
    """A message that was accepted; `seq` is its number among the messages to the session."""

    seq: int


class EndedTurn(Told):
    """The end of the last turn."""

    id: str
    state: str
    """`ok`, `error` or `canceled`."""
    yield_reason: str
    result_event_id: int | None
    """The number of the event that holds its answer."""


class TokensUsed(Told):
    """The use of models."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost: int
    """Millionths of the currency of the configured prices."""
    complete: bool
    """False where some tokens are unknown."""
    priced: bool
    """False where some cost is unknown."""


class SessionTurn(Told):
    """A turn; facts that are not known yet are None."""

    id: str
    state: str
    """As `EndedTurn.state`, or `running`."""
    yield_reason: str | None
    attempt: int
    """The number of times that a worker claimed it."""
    started_at: int
    completed_at: int | None
    active_seconds: float | None
    """The seconds for which it was worked, without waiting."""
    usage: TokensUsed | None
    error: str | None
    """The reference under which the operator finds the error."""
    result_event_id: int | None


class SessionTurns(Told):
    """A page of turns, newest first; `next` is the `before` of the next page, None at the end."""

    turns: tuple[SessionTurn, ...]
    next: int | None


class Session(Told):
    """A session as it is now."""

    id: str
    status: str
    kind: str
    agent: str
    title: str | None
    taint: str
    """The label of all that it has read."""
    mode: MessageMode
    waiting: int
    """The number of its messages that wait."""
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
    """The answer of a turn: the event that holds it. An agent's message has its text as `text`."""

    type: str
    level: EventLevel
    body: dict[str, JsonValue]


class SessionResult(Told):
    """The end and the result of the last turn; None where there is none, or where it may not be told."""

    status: str
    last_turn: EndedTurn | None
    result: ResultBody | None
    inputs: tuple[int, ...]
    """The numbers of the messages that this turn took in, as `SentMessage.seq` has them.

    The first message of a session is 1.
    """

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
    """A session's deletion, and the copies beyond reach, as far as this token may know."""

    children: int
    """The number of background sessions that were deleted with it."""
    sent: tuple[SentCopies, ...]
    handed: tuple[HandedCopies, ...]
    files_left: bool
    """Some files could not be erased yet."""
    kept: tuple[str, ...]
    """Why servers of the store keep their files unchanged, for now."""


class SessionEvent(Told):
    """An event of a session's log. The type defines `body` (docs/api.md)."""

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


class LogEnd(Told):
    """Where a log ends, for a reader who knows later events."""

    after: int
    last: int


class AgentQuestion(Told):
    """An agent's question to its program."""

    id: str
    session: str
    state: str
    text: str | None
    """The agent's words, None where a rule keeps them back."""
    takes: str
    """The possible answers, in words."""
    default: bool | int | float | str | None
    """The answer that counts if none is given."""
    expires_at: int
    label: str


class QuestionPage(Told):
    """The questions of a session's agent, the next to end first."""

    questions: tuple[AgentQuestion, ...]


class WaitingApproval(Told):
    """A call that waits for an approval."""

    id: str
    session: str
    kind: str
    tool: str
    principal: str
    asks: dict[str, JsonValue] | None
    """The question, None where a rule keeps it back."""
    rules: tuple[str, ...]
    """The rules that ask."""
    state: str
    may_approve: bool
    """This token may approve it."""
    expires_at: int
    label: str


class ApprovalList(Told):
    """The calls that wait."""

    approvals: tuple[WaitingApproval, ...]


class SettledApprovals(Told):
    """The answered calls, and the number of calls of the same question that wait for another approver."""

    approvals: tuple[WaitingApproval, ...]
    waiting: int


class GivenGrant(Told):
    """An approval that counts for further calls of its scope."""

    id: str
    session: str
    tool: str
    principal: str
    given_by: str
    worst: str | None
    """The worst case of its calls, None where a rule keeps it back."""
    rules: tuple[str, ...]
    left: int
    """How many calls it still covers."""
    until: int
    """Until when it counts, in milliseconds since 1970."""
    may_revoke: bool
    label: str


class GrantList(Told):
    """The grants that cover further calls."""

    grants: tuple[GivenGrant, ...]


class Simulation(Told):
    """The gate's decision about a call that is not made."""

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
    """One thing of a trace; the constant node for the hidden rest has only an id, a kind and a title."""

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
    """A run as it is now; facts that are not known yet are None."""

    id: str
    session: str
    """The session that it is."""
    type: RunKind
    status: str
    """`running`, `waiting` for people, `paused`, `stopped` or `ended`."""
    title: str | None
    taint: str
    """The label of all that it has read."""
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
    """The number of steering notes that it has not read."""
    next_action: str | None
    schedule: str | None
    ended_at: int | None
    reason: str | None


class RunPage(Told):
    """A page of runs, newest first; `cursor` asks for the next one, None at the end."""

    runs: tuple[Run, ...]
    cursor: str | None


class RunStats(Told):
    """A run in numbers. Rates are shares of the finished tasks; an unknown number is None.

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
    """Millionths of the currency of the configured prices."""


class SentNote(Told):
    """A steering note that waits for the run's next heartbeat."""

    id: str


class ScheduledWork(Told):
    """A schedule or reminder."""

    id: str
    kind: ScheduledKind
    status: str
    title: str | None
    text: str
    label: str
    """Its runs begin with this label, and a reminder keeps it."""
    cron: str | None
    """None for one that is due once."""
    time_zone: str
    next_at: int | None
    created_at: int
    deliver_to: str | None
    overlap: str
    by_agent: bool
    last_at: int | None
    last_run: str | None
    failures: int
    """The number of failures in a row."""
    skipped: int


class SchedulePage(Told):
    """Schedules, the oldest first."""

    schedules: tuple[ScheduledWork, ...]


class KnownFact(Told):
    """A memory."""

    id: str
    text: str | None
    """None where it is erased or a rule keeps it back."""
    domain: str | None
    label: str
    """The label that it was learned with."""
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
    """A webhook with its secret, which is returned only once."""

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
    """The event of a webhook's request, None for the request that ends a session's events."""

    session: str
    event: SessionEvent | None = None


class WebhookMessage(Told):
    """The body of a webhook's request. `type` is the event's type, or `session.unavailable`."""

    type: str
    timestamp: str
    data: WebhookData
