"""What becomes of messages that come while a turn of their session runs (SPEC C, mid-run messages)."""

from enum import StrEnum


class QueueMode(StrEnum):
    """How a session takes what comes while a turn runs; only what whoever the turn is for says enters it.

    COLLECT makes one turn of what waits when a turn ends, QUEUE makes each message a turn of its own, STEER lets them
    into the running turn, INTERRUPT ends that and goes on with them.
    """

    COLLECT = "collect"
    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"

    def joins(self, *, opening: bool) -> bool:
        """Say whether what waits enters a turn before its next model call; `opening` tells that it is the first."""
        return self is QueueMode.STEER or (opening and self is not QueueMode.QUEUE)
