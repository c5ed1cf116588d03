"""The states, kinds and reasons that the records of runs name.

They import nothing of the house: the command line offers some of them before it has loaded anything else.
"""

from enum import StrEnum


class RunType(StrEnum):
    """How a run continues: AUTONOMOUS by itself, MANUAL when a message arrives."""

    AUTONOMOUS = "autonomous"
    MANUAL = "manual"


class RunStatus(StrEnum):
    """The status of a run. `STOPPED` is final."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class AuthMethod(StrEnum):
    """How a run pays for its model, by its own account."""

    CLAUDE_PRO = "claude_pro"
    API_KEY = "api_key"


class Breaker(StrEnum):
    """The circuit breaker: CLOSED lets a run continue, OPEN pauses it, HALF_OPEN lets it try once more."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Priority(StrEnum):
    """The priority of a steering note: URGENT means stop and pivot, ABORT finish safely and end."""

    NORMAL = "normal"
    URGENT = "urgent"
    ABORT = "abort"


class EndReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    ABORTED = "aborted"
    DEADLINE = "deadline"
    LIMIT = "limit"
    SLOT_LOCKED = "slot_locked"
    NOT_INITIALIZED = "not_initialized"
    FAILED = "failed"


class GapReason(StrEnum):
    """Why a run did nothing for a while."""

    CRASH = "crash"
    BREAKER = "breaker"
    PAUSED = "paused"
    WAITING = "waiting"
