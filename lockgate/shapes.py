"""What the API answers, as frozen values.

Times are milliseconds since the epoch, and labels are text, as in `INTERNAL{hr}~`.
"""

from typing import Literal

from pydantic import JsonValue

from lockgate.transport import Told

EventLevel = Literal["user", "progress", "internal"]
"""How much of a log is told: what people in a chat see, what goes on besides, and what operators look at."""

MessageMode = Literal["queue", "collect", "steer", "interrupt"]
"""What becomes of a message that comes while a turn runs."""


class Whoami(Told):
    """Who this token is."""

    name: str
    principal: str
    scope: str
    clearance: str
    expires_at: int | None = None


class CreatedSession(Told):
    """A session that was made, or that was there under its key."""

    id: str
    created: bool


class SentMessage(Told):
    """A message that was accepted; `seq` is its number among what the session was sent."""

    seq: int


class EndedTurn(Told):
    """How the last turn ended.

    `state` is `ok`, `error` or `canceled`. `result_event_id` is the number of the event that has its answer.
    """

    id: str
    state: str
    yield_reason: str | None = None
    result_event_id: int | None = None


class Session(Told):
    """A session as its record has it now."""

    id: str
    status: str
    kind: str
    taint: str
    created_at: int
    updated_at: int
    title: str | None = None
    last_turn: EndedTurn | None = None


class SessionList(Told):
    """A page of sessions, newest first; `cursor` is where the next one begins, None at the end."""

    sessions: tuple[Session, ...]
    cursor: str | None = None


class ResultBody(Told):
    """What a turn came to."""

    type: str
    level: str
    body: JsonValue


class SessionResult(Told):
    """The last turn that ended, and its answer; None where there is none yet."""

    last_turn: EndedTurn | None = None
    result: ResultBody | None = None


class SessionEvent(Told):
    """An event of a session's log. `body` is what its type says (docs/api.md)."""

    id: str
    seq: int
    ts: int
    actor: str
    type: str
    level: EventLevel
    label: str
    body: JsonValue
    turn_id: str | None = None
    refs: tuple[JsonValue, ...] = ()


class EventPage(Told):
    """A page of a log; `next` is the number after which the next page begins, None at the end."""

    events: tuple[SessionEvent, ...]
    next: int | None = None


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
