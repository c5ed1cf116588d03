"""The events of a session's log, and results that are kept by reference outside the context."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.core.clock import moment
from bot.core.json_values import JsonObject
from bot.sessions.log import event_types
from bot.sessions.log.event_types import EventBody, HeldAnswer, HeldIdentifiers, HeldPart, UnknownEvent
from bot.sessions.refs import Ref
from policy.labels import Label


class EventType(StrEnum):
    """The names of the types of events, as logs and exports write them."""

    SESSION_CREATED = "session.created"
    SESSION_RESET = "session.reset"
    SESSION_PAUSED = "session.paused"
    SESSION_RESUMED = "session.resumed"
    SESSION_ARCHIVED = "session.archived"
    SESSION_RESTORED = "session.restored"
    SESSION_IMPORTED = "session.imported"
    LOG_TRUNCATED = "log.truncated"
    USER_MESSAGE = "user.message"
    OBSERVED = "chat.observed"
    RECALLED = "memories.recalled"
    AGENT_MESSAGE = "agent.message"
    AGENT_THINKING = "agent.thinking"
    TURN_STARTED = "turn.started"
    TURN_COMPLETED = "turn.completed"
    TOOL_CALL = "tool.call"
    TOOL_RESULT = "tool.result"
    ITEM_HELD = "item.held"
    POLICY_DECISION = "policy.decision"
    TAINT_RAISED = "taint.raised"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_RESOLVED = "approval.resolved"
    RELEASE_REQUESTED = "release.requested"
    RELEASE_CONFIRMED = "release.confirmed"
    SUMMARY = "session.summary"
    ERROR = "error.turn"


TYPES: Final[Mapping[type[EventBody], EventType]] = MappingProxyType(
    {
        event_types.SessionCreated: EventType.SESSION_CREATED,
        event_types.SessionReset: EventType.SESSION_RESET,
        event_types.SessionPaused: EventType.SESSION_PAUSED,
        event_types.SessionResumed: EventType.SESSION_RESUMED,
        event_types.SessionArchived: EventType.SESSION_ARCHIVED,
        event_types.SessionRestored: EventType.SESSION_RESTORED,
        event_types.SessionImported: EventType.SESSION_IMPORTED,
        event_types.LogTruncated: EventType.LOG_TRUNCATED,
        event_types.UserMessage: EventType.USER_MESSAGE,
        event_types.ChatObserved: EventType.OBSERVED,
        event_types.MemoriesRecalled: EventType.RECALLED,
        event_types.AgentMessage: EventType.AGENT_MESSAGE,
        event_types.AgentThinking: EventType.AGENT_THINKING,
        event_types.TurnStarted: EventType.TURN_STARTED,
        event_types.TurnCompleted: EventType.TURN_COMPLETED,
        event_types.ToolCall: EventType.TOOL_CALL,
        event_types.ToolResult: EventType.TOOL_RESULT,
        event_types.ItemHeld: EventType.ITEM_HELD,
        event_types.PolicyDecision: EventType.POLICY_DECISION,
        event_types.TaintRaised: EventType.TAINT_RAISED,
        event_types.ApprovalRequested: EventType.APPROVAL_REQUESTED,
        event_types.ApprovalResolved: EventType.APPROVAL_RESOLVED,
        event_types.ReleaseRequested: EventType.RELEASE_REQUESTED,
        event_types.ReleaseConfirmed: EventType.RELEASE_CONFIRMED,
        event_types.SessionSummary: EventType.SUMMARY,
        event_types.TurnError: EventType.ERROR,
    }
)
"""The name of each event class; an `UnknownEvent` has its own name."""


class Visibility(StrEnum):
    """The intended readers of an event: the people in the chat, those watching progress, or operators."""

    USER = "user"
    PROGRESS = "progress"
    INTERNAL = "internal"

    def at_least(self, least: "Visibility") -> bool:
        """Say whether an event of this level passes a filter with the minimum `least`."""
        return _RANKS[self] >= _RANKS[least]


_RANKS: Final = MappingProxyType({Visibility.INTERNAL: 0, Visibility.PROGRESS: 1, Visibility.USER: 2})
"""The rank of each level: higher ranks have more readers."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that the store has not yet given a place; its type is that of its `body`.

    Args:
        actor: The account, principal or part of the program that caused it.
        label: The label of its content.
        body: Its content.
        visibility: Its intended readers.
        admitted: Whether its content entered the context, so that its label counts for the taint (law
            `taint_is_the_fold`).
        turn: The id of its turn, empty outside one.
        carried: The fold of all earlier events of the generation (`bot.history.folds`), for the program alone: it is
            shown to nobody.
        refs: The sources that it came from.
    """

    actor: str
    label: Label
    body: EventBody
    visibility: Visibility = Visibility.INTERNAL
    admitted: bool = False
    turn: str = ""
    carried: JsonObject | None = None
    refs: tuple[Ref, ...] = ()

    @property
    def type(self) -> str:
        """The name of its type, an `EventType` where that is known."""
        return _type_of(self.body)


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log; its type is that of its `body`, and other fields are as in `NewEvent`.

    Args:
        seq: Its place in the log: 1, 2, 3 … without gaps, across generations.
        ts: The time of the write, in milliseconds since the epoch on the store's clock.
        generation: The generation it belongs to.
    """

    seq: int
    ts: int
    generation: int
    actor: str
    label: Label
    body: EventBody
    visibility: Visibility
    admitted: bool
    turn: str
    carried: JsonObject | None = None
    refs: tuple[Ref, ...] = ()

    @property
    def type(self) -> str:
        """The name of its type, an `EventType` where that is known."""
        return _type_of(self.body)


def _type_of(body: EventBody) -> str:
    return body.name if isinstance(body, UnknownEvent) else TYPES[type(body)]


@dataclass(frozen=True, slots=True)
class DeferredResult:
    """A held item of one generation of one session.

    Args:
        ref: Its reference, `held-…`.
        text: Its content.
        label: The true label of `text`.
        floor: The least label that was certain before the text was read, from configuration and the call alone. While
            the true label is above the taint, only the floor may be shown.
        handle: The kind of the handle that `ref` is, empty for a reference; `text` is then an identifier, as JSON.
        server: The MCP server whose identifier it is, or whose identifiers are listed in it.
        parts: The parts of it that have references or handles of their own.
        answer: Its facts as a bounded answer, None for any other result.
        listed: The identifiers in it that calls may take by their places.
        handles: The kinds of the handles that the session was shown in its place.
        tool: The tool that gave it, empty where an older version of this program held it.
        at: When it was held, in milliseconds since the epoch on the store's clock.
    """

    ref: str
    text: str
    label: Label
    floor: Label
    handle: str = ""
    server: str = ""
    parts: tuple[HeldPart, ...] = ()
    answer: HeldAnswer | None = None
    listed: tuple[HeldIdentifiers, ...] = ()
    handles: tuple[str, ...] = ()
    tool: str = ""
    at: int = 0

    @property
    def named(self) -> str:
        """It in words for people who are asked: by its call, so nothing of its text is told."""
        if not self.tool:
            return f"the held result `{self.ref}`"
        return f"the result `{self.ref}` of `{self.tool}` at {moment(self.at)} UTC"

    @property
    def digest(self) -> str:
        """The sha256 of the content, for bindings."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
