"""What a session's log holds: events, each with its label, in order and without gaps.

Times are milliseconds since the epoch on the store's clock. Bodies are JSON objects.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.sessions.json import JsonObject
from policy.labels import Label


class EventType(StrEnum):
    """What an event of the log tells."""

    SESSION_CREATED = "session.created"
    SESSION_RESET = "session.reset"
    USER_MESSAGE = "user.message"
    OBSERVED = "chat.observed"
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


class Visibility(StrEnum):
    """Who an event is meant for: the people in the chat, those watching progress, or operators."""

    USER = "user"
    PROGRESS = "progress"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before the store gave it a place.

    `admitted` tells that its content entered the context, so its label counts for the taint (law
    `taint_is_the_fold`). `turn` is the id of the turn it belongs to, empty outside one. `carried` is what all events of
    the generation before it come to (`bot.folds`), for the program alone: nobody is shown it.
    """

    type: EventType
    actor: str
    label: Label
    body: JsonObject
    visibility: Visibility = Visibility.INTERNAL
    admitted: bool = False
    turn: str = ""
    carried: JsonObject | None = None


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
    carried: JsonObject | None = None
