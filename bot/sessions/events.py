"""The events of a session's log, the bodies of what is stored, and what is kept by reference outside the context."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pydantic import JsonValue

from bot.sessions.refs import Ref
from policy.labels import Label

JsonObject: TypeAlias = Mapping[str, JsonValue]


def whole(value: JsonValue) -> int:
    """Return a whole number of a body, 0 for anything else."""
    return value if isinstance(value, int) else 0


def objects(body: JsonObject, name: str) -> tuple[JsonObject, ...]:
    """Return the objects of a list in a body, none if it is not there."""
    found = body.get(name)
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def texts(body: JsonObject, name: str) -> tuple[str, ...]:
    """Return the texts of a list in a body, none if it is not there."""
    found = body.get(name)
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


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
    the generation before it come to (`bot.history.folds`), for the program alone: nobody is shown it. `refs` are
    what it came from.
    """

    type: EventType
    actor: str
    label: Label
    body: JsonObject
    visibility: Visibility = Visibility.INTERNAL
    admitted: bool = False
    turn: str = ""
    carried: JsonObject | None = None
    refs: tuple[Ref, ...] = ()


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
    refs: tuple[Ref, ...] = ()


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
