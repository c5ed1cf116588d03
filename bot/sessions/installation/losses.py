"""Acknowledged writes that a store lost, as after a failover to a replica that lagged."""

from dataclasses import dataclass
from typing import Final

from policy.labels import Label

LOG_TRUNCATED: Final = "log_truncated"
"""The kind of the audit row about a loss, and the code of the answer to a reader who knows later events."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The store has less of a session, or of the chain `audit`, than a process knows.

    Args:
        sid: The session, or the name of the chain `audit`.
        kept: The last event that is still there.
        lost: The last event that was known to have been there; `kept` if only other records are known to be lost.
        label: The session's taint from now on, None for the chain `audit`.
        reset: Whether a reset of the session is among the lost.
        gone: Whether nothing of the session is left.
        deleted: Whether the session had been deleted and is there again.
    """

    sid: str
    kept: int
    lost: int
    label: Label | None = None
    reset: bool = False
    gone: bool = False
    deleted: bool = False
