"""The types of events, one frozen class each: the content of a log event beside its place, label and actor.

`bot.sessions.log.serialization` writes each type as JSON. An event of a type that this version does not know is an
`UnknownEvent`: it keeps its label, is shown as unknown, and no code reads its fields.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bot.core.json_values import JsonObject
from bot.sessions.approvals import ApprovalQuestion, ApprovalState
from bot.sessions.consents.releases import Release
from bot.sessions.messages import Endorsed, FileKind, Origin
from bot.sessions.usage import UNUSED, Usage
from policy.decision import Verdict
from policy.labels import Label
from policy.request import Hook


class ToolOutcome(StrEnum):
    """The outcome of a call: done, its result held, failed, refused, or interrupted."""

    OK = "ok"
    HELD = "held"
    FAILED = "failed"
    DENIED = "denied"
    INTERRUPTED = "interrupted"

    @property
    def ran(self) -> bool:
        """Whether the result is the tool's own, and not a notice in its place."""
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
    """How a turn ended, in one word: without an error, with one, or stopped by people."""

    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"

    @classmethod
    def of(cls, reason: YieldReason) -> "TurnState":
        """Return the state for the reason of an end."""
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
    """A person paused the session."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """A person resumed the session."""


@dataclass(frozen=True, slots=True)
class SessionArchived:
    """A person made the session read-only."""


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """A person restored the archived session."""


@dataclass(frozen=True, slots=True)
class SessionImported:
    """The events before this one were imported from an export.

    Args:
        session: The id of the exported session.
        generation: The exported generation.
        made: The time of the export, in milliseconds since the epoch.
        key: The public key that the export is signed with.
        at_top: Whether its labels were ignored and everything was imported at the top label.
    """

    session: str
    generation: int
    made: int
    key: str
    at_top: bool = False


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """The store lost events that it had acknowledged: the log goes on behind their numbers.

    Args:
        kept: The last event before the lost ones.
        lost: The last event that was known to have been there; `kept` if only other records are known to be lost.
    """

    kept: int
    lost: int


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file that came with a message: where it is kept, without its bytes.

    Args:
        name: Its name.
        problem: Why the file was not taken in; then only its name is known. Empty for none.
        kind: The use that can be made of it.
        path: Its path as the file tools take it.
        media_type: Its media type, as detected or as the platform gave it.
        size: Its size in bytes.
        digest: The SHA-256 of its content, in hex.
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
    """A message of a person, or of another session, as the model reads it.

    Args:
        text: The message.
        origin: The session that sent it, None for a person's message.
        authors: The people whose words another session's message derives from.
        files: The files that came with it.
        number: The input's place in its generation, as told to the program that sent it; 0 for other senders.
    """

    text: str
    origin: Origin | None = None
    authors: tuple[str, ...] = ()
    files: tuple[MessageFile, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class ChatObserved:
    """Messages in a chat not addressed to the bot; `upto` is the id of the last one, empty for another place's."""

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
    """A model's response that is not an answer yet, complete enough to be sent back to its provider."""

    response: JsonObject


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began; `attempt` counts its claims from 1."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """A turn ended, and why: the record that is kept of the turn.

    Args:
        reason: Why it ended.
        took: Its length in milliseconds.
        idle: The part of `took`, in milliseconds, in which no worker worked on it: it waited for people, or for a
            worker to replace one that is gone.
        attempt: The number of its claims.
        back: How many events before this one its answer stands, 0 if there is none.
        error: The reference of its error, empty for none.
        usage: The tokens and requests it used.
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
    """A decided call, written to the log before it runs; `arguments` are None if they are not a JSON object.

    `depended` are the held answers that decide whether the call is made, and the entries of held lists that it takes.
    Later results may tell of them.
    """

    call: str
    tool: str
    arguments: JsonObject | None
    depended: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call's result, as the model reads it.

    `endorsed` is the bounded answer, or the skeleton of an UNTRUSTED result, that the text is, where it was counted.
    """

    call: str
    tool: str
    text: str
    outcome: ToolOutcome
    endorsed: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule whose verdict was not ALLOW, with its sentence."""

    rule: str
    verdict: Verdict
    fixed: bool
    message: str


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision other than ALLOW, about a tool, an answer or a message.

    Args:
        hook: Where it was made.
        about: The name of the tool, or the kind of item.
        verdict: The verdict.
        rules: The rules that did not allow.
        before: The taint at that moment.
        after: The taint that would have resulted.
        asker: The person it was decided for.
        text: The explanation that `/why` shows.
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
class HeldPart:
    """A part of a held result, under a reference of its own.

    Args:
        ref: Its reference or handle.
        text: Its text; the identifier behind a handle, as JSON.
        handle: The kind of the handle, empty for a reference.
    """

    ref: str
    text: str
    handle: str = ""


@dataclass(frozen=True, slots=True)
class HeldIdentifiers:
    """The identifiers of one kind in a held result, so that a call may take one by its place.

    Args:
        kind: The kind of their handles.
        most: The highest number of them that the result may have. Like the kind it tells nothing of the result.
        identifiers: These, each as JSON, in the order of the result.
        made: Whether there is one alone, of an object that the call made, so that no third party chose the object.
    """

    kind: str
    most: int
    identifiers: tuple[str, ...] = ()
    made: bool = False


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """A held result that is a bounded answer, so that a condition may name it.

    All of it depends on the call and its charge, and nothing on the answer.

    Args:
        fields: The names of its fields, each with whether it is a boolean.
        counted: Whether its bits are within the limit.
        endorsed: The record of the charge, none where nothing is endorsed.
    """

    fields: tuple[tuple[str, bool], ...]
    counted: bool = True
    endorsed: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemHeld:
    """A result that is kept out of the context, under a reference; the event's label is that of its text.

    Args:
        ref: Its reference.
        text: The result.
        floor: The part of its label that may be shown.
        decision: The decision that held or changed it, None if none did.
        parts: The parts of it that have references or handles of their own.
        server: The MCP server that the handles and identifiers belong to, empty for none.
        answer: Its facts as a bounded answer, None for any other result.
        listed: The identifiers in it that calls may take by their places.
        tool: The tool that gave it.
        at: When it gave it, in milliseconds on the store's clock.
    """

    ref: str
    text: str
    floor: Label
    decision: PolicyDecision | None = None
    parts: tuple[HeldPart, ...] = ()
    server: str = ""
    answer: HeldAnswer | None = None
    listed: tuple[HeldIdentifiers, ...] = ()
    tool: str = ""
    at: int = 0


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
    """A text was shown to a person who may release it."""

    release: Release


@dataclass(frozen=True, slots=True)
class ReleaseConfirmed:
    """That person released the text: the record that its delivery refers to."""

    release: Release


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A recap of the first `upto` events of the generation.

    Args:
        text: The recap.
        upto: The number of events it covers.
        topic: Its topic, empty for all; with a topic it leaves out everything else.
        messages: How many messages and answers it stands for.
        authors: The people whose words it sums up.
    """

    text: str
    upto: int
    topic: str = ""
    messages: int = 0
    authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnError:
    """A turn failed. The text is for operators; the chat shows the reference alone."""

    reference: str
    text: str


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that this version does not know, as it was written."""

    name: str
    fields: JsonObject

    @property
    def authors(self) -> tuple[str, ...]:
        """The people in its `authors` field, where every event names them, as far as it can be read."""
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
    | LogTruncated
    | UnknownEvent
)
"""The content of an event, by its type."""
