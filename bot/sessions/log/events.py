"""The events of a session's log, and what is kept by reference outside the context."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.core.json_values import JsonObject
from bot.sessions.log import event_types
from bot.sessions.log.event_types import EventBody, UnknownEvent
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
"""The name of each type's class; an event of a type that is not known has its own."""


class Visibility(StrEnum):
    """Who an event is meant for: the people in the chat, those watching progress, or operators."""

    USER = "user"
    PROGRESS = "progress"
    INTERNAL = "internal"

    def at_least(self, least: "Visibility") -> bool:
        """Say whether an event of this level is among those that a minimum lets through."""
        return _RANKS[self] >= _RANKS[least]


_RANKS: Final = MappingProxyType({Visibility.INTERNAL: 0, Visibility.PROGRESS: 1, Visibility.USER: 2})
"""The levels of events, the one for the fewest readers first."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before the store gave it a place; its type is that of its `body`.

    `admitted` tells that its content entered the context, so its label counts for the taint (law
    `taint_is_the_fold`). `turn` is the id of the turn it belongs to, empty outside one. `carried` is what all events of
    the generation before it come to (`bot.history.folds`), for the program alone: nobody is shown it. `refs` are
    what it came from.
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
    """An event in the log: seq 1, 2, 3 … without gaps, whatever the generation; its type is that of its `body`."""

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

    `label` is the true label of `text`. `floor` is what it was known to be at least before it was read, from
    configuration and the call alone; it is all that may be told of the item while its label is above the taint.
    """

    ref: str
    text: str
    label: Label
    floor: Label

    @property
    def digest(self) -> str:
        """The sha256 of the content, for bindings."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
