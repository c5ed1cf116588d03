"""How a session's status may move: one closed table, used by scripts and by everything that shows a status."""

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
        Status.ARCHIVED: frozenset[Status](),
    }
)
