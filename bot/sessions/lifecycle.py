"""How a session's status may move: one closed table, used by scripts and by everything that shows a status.

A background session is archived when it has ended and was heard. It comes back for the report of one that it spawned,
and for nothing else; a conversation that is archived never does.
"""

from types import MappingProxyType
from typing import Final

from bot.sessions.values import Status

MOVES: Final = MappingProxyType(
    {
        Status.QUEUED: frozenset({Status.RUNNING, Status.IDLE, Status.FAILED, Status.ARCHIVED}),
        Status.RUNNING: frozenset({Status.QUEUED, Status.AWAITING_INPUT, Status.IDLE, Status.FAILED}),
        Status.AWAITING_INPUT: frozenset({Status.QUEUED, Status.RUNNING, Status.IDLE, Status.ARCHIVED}),
        Status.IDLE: frozenset({Status.QUEUED, Status.RUNNING, Status.ARCHIVED}),
        Status.FAILED: frozenset({Status.QUEUED, Status.RUNNING, Status.IDLE, Status.ARCHIVED}),
        Status.ARCHIVED: frozenset({Status.QUEUED}),
    }
)
