"""The types of events, a frozen class each: what an event of the log tells beside its place, label and actor.

`bot.sessions.log.serialization` knows how each is written as JSON. An event of a type that this version does not know
is an `UnknownEvent`: it keeps its label and is shown as unknown, and nobody reads its fields.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bot.core.json_values import JsonObject
from bot.sessions.approvals import ApprovalQuestion, ApprovalState
from bot.sessions.messages import FileKind, Origin
from bot.sessions.releases import Release
from bot.sessions.usage import UNUSED, Usage
from policy.decision import Verdict
from policy.labels import Label
from policy.request import Hook


class ToolOutcome(StrEnum):
    """What became of a call: done, its result held, failed, refused, or interrupted."""

    OK = "ok"
    HELD = "held"
    FAILED = "failed"
    DENIED = "denied"
    INTERRUPTED = "interrupted"

    @property
    def ran(self) -> bool:
        """Whether the tool itself gave the result, and no notice stands in its place."""
        return self in {ToolOutcome.OK, ToolOutcome.FAILED}


class YieldReason(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    NEEDS_INPUT = "needs_input"
    ERROR = "error"
    MAX_TURNS = "max_turns"
    BUDGET_EXCEEDED = "budget_exceeded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CANCELED = "canceled"


class TurnState(StrEnum):
    """How a turn ended, in a word: it did what it could, something kept it from that, or people stopped it."""

    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"

    @classmethod
    def of(cls, reason: YieldReason) -> "TurnState":
        """Return the word for the reason of an end."""
        if reason is YieldReason.CANCELED:
            return cls.CANCELED
        return cls.OK if reason in {YieldReason.COMPLETED, YieldReason.NEEDS_INPUT} else cls.ERROR


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """The session exists: the first event of its log."""


@dataclass(frozen=True, slots=True)
class SessionReset:
    """A new generation begins."""


@dataclass(frozen=True, slots=True)
class SessionPaused:
    """A person let the session rest."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """A person let it go on."""


@dataclass(frozen=True, slots=True)
class SessionArchived:
    """A person made the session read-only."""


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """A person let it be spoken in again."""


@dataclass(frozen=True, slots=True)
class SessionImported:
    """What stands before was imported from an export of the generation `generation` of the session `session`.

    That was `made` in milliseconds since the epoch, and signed with the public key `key`. With `at_top` its labels did
    not count.
    """

    session: str
    generation: int
    made: int
    key: str
    at_top: bool = False


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file that came with a message: where it is kept, and not its bytes.

    `path` is as the tools for files take it, `size` in bytes, `digest` the SHA-256 in hex. With a `problem` it was not
    taken in, and only its name is known.
    """

    name: str
    problem: str = ""
    kind: FileKind = FileKind.OTHER
    path: str = ""
    media_type: str = ""
    size: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A person's message, as the model reads it, or what another session sent: then `origin` tells which.

    `authors` are the people whose words another session's message derives from. `number` is the place among the inputs
    of its generation that a program was told when it sent this, 0 for what no program sent.
    """

    text: str
    origin: Origin | None = None
    authors: tuple[str, ...] = ()
    files: tuple[MessageFile, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class ChatObserved:
    """What people said in a chat and not to the bot; `upto` is the id of the last of it, empty for another place's."""

    text: str
    upto: str
    authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoriesRecalled:
    """Memories that the runtime recalled for a turn, as the model reads them; `memories` are their ids, best first."""

    text: str
    memories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """An answer, said or withheld."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentThinking:
    """A model's response that is no answer yet, complete enough to be sent back to its provider."""

    response: JsonObject


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began; `attempt` counts its claims from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """A turn ended, and why: the record that is kept of it.

    `took` is how many milliseconds it went on, `idle` for how many of them nobody worked on it: it waited for people,
    or for a worker in the place of one that is gone. `attempt` counts its claims. `back` is how many events before this
    one its answer stands, 0 if there is none. `error` is the reference of what went wrong.
    """

    reason: YieldReason
    took: int = 0
    idle: int = 0
    attempt: int = 1
    back: int = 0
    error: str = ""
    usage: Usage = UNUSED


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call was decided, and stands in the log before it runs; `arguments` are None if they are no JSON object."""

    call: str
    tool: str
    arguments: JsonObject | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call's result, as the model reads it."""

    call: str
    tool: str
    text: str
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule that did not simply allow, and its sentence."""

    rule: str
    verdict: Verdict
    fixed: bool
    message: str


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision that was not simply ALLOW, about a tool, an answer or a message; `text` is what `/why` shows.

    `before` and `after` are the taint, and what it would have become. `asker` is the person it was decided for.
    """

    hook: Hook
    about: str
    verdict: Verdict
    rules: tuple[RuleVerdict, ...]
    before: Label
    after: Label
    asker: str
    text: str


@dataclass(frozen=True, slots=True)
class ItemHeld:
    """A result that is kept out of the context, under a reference; the event's label is that of its text.

    `floor` is what may be told of that label. `decision` is what made it held or changed it, if anything did.
    """

    ref: str
    text: str
    floor: Label
    decision: PolicyDecision | None = None


@dataclass(frozen=True, slots=True)
class TaintRaised:
    """The taint rose; `cause` is a tool, a message or a command."""

    before: Label
    after: Label
    cause: str


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """People are asked until `expires_at`, in milliseconds on the store's clock."""

    approval: str
    question: ApprovalQuestion
    expires_at: int


@dataclass(frozen=True, slots=True)
class ApprovalResolved:
    """A question was answered, cancelled, or ran out of time."""

    approval: str
    state: ApprovalState


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """A person who may release a text was shown it."""

    release: Release


@dataclass(frozen=True, slots=True)
class ReleaseConfirmed:
    """That person released the text: the record that its delivery refers to."""

    release: Release


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A recap of the first `upto` events of the generation; one with a `topic` leaves out what is not about it.

    `messages` is how many messages and answers it stands for. `authors` are the people whose words it sums up.
    """

    text: str
    upto: int
    topic: str = ""
    messages: int = 0
    authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnError:
    """What went wrong, for operators; the chat only gets the reference."""

    reference: str
    text: str


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that this version does not know, as it was written."""

    name: str
    fields: JsonObject

    @property
    def authors(self) -> tuple[str, ...]:
        """The people it names where every event names them, as far as that can be read."""
        found = self.fields.get("authors")
        return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


EventBody: TypeAlias = (
    UserMessage
    | ChatObserved
    | MemoriesRecalled
    | AgentMessage
    | AgentThinking
    | TurnStarted
    | TurnCompleted
    | ToolCall
    | ToolResult
    | ItemHeld
    | PolicyDecision
    | TaintRaised
    | ApprovalRequested
    | ApprovalResolved
    | ReleaseRequested
    | ReleaseConfirmed
    | SessionSummary
    | TurnError
    | SessionCreated
    | SessionReset
    | SessionPaused
    | SessionResumed
    | SessionArchived
    | SessionRestored
    | SessionImported
    | UnknownEvent
)
"""What an event tells, by its type."""
