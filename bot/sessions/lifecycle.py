"""The life of a session: how its status may change, and the effect of each operation that its status does not allow.

Both tables are written into the store's scripts when these are loaded, so no script checks a status by itself. An
operation is allowed in every status that is not in its row.

A chat continues after its session was archived or deleted: its next message begins another session there, under the
next generation root (`bot.access.session_ids`).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.sessions.models import Status

MOVES: Final = MappingProxyType(
    {
        Status.QUEUED: frozenset(
            {Status.RUNNING, Status.IDLE, Status.FAILED, Status.PAUSED, Status.ARCHIVED, Status.DELETED}
        ),
        Status.RUNNING: frozenset(
            {Status.QUEUED, Status.AWAITING_INPUT, Status.IDLE, Status.FAILED, Status.PAUSED, Status.DELETED}
        ),
        Status.AWAITING_INPUT: frozenset(
            {Status.QUEUED, Status.RUNNING, Status.IDLE, Status.FAILED, Status.PAUSED, Status.ARCHIVED, Status.DELETED}
        ),
        Status.IDLE: frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.ARCHIVED, Status.DELETED}),
        Status.FAILED: frozenset(
            {Status.QUEUED, Status.RUNNING, Status.IDLE, Status.PAUSED, Status.ARCHIVED, Status.DELETED}
        ),
        Status.PAUSED: frozenset({Status.QUEUED, Status.AWAITING_INPUT, Status.IDLE, Status.ARCHIVED, Status.DELETED}),
        Status.ARCHIVED: frozenset({Status.IDLE, Status.QUEUED, Status.DELETED}),
        Status.DELETED: frozenset[Status](),
    }
)
"""Status → the statuses that may follow it. Every status may stay as it is."""


class IllegalMove(StrEnum):
    """The effect of an operation that a status does not allow.

    `REFUSED`: its caller gets an error that names the status. `HIDDEN`: the session appears to be absent. `IGNORED`:
    nothing is done, and its caller is told that it is done.
    """

    REFUSED = "refused"
    HIDDEN = "hidden"
    IGNORED = "ignored"


_Row = Mapping[Status, IllegalMove]

_GONE: Final[_Row] = MappingProxyType({Status.DELETED: IllegalMove.HIDDEN})
_NOTHING_LEFT: Final[_Row] = MappingProxyType({Status.DELETED: IllegalMove.IGNORED})
_READ_ONLY: Final[_Row] = MappingProxyType({Status.ARCHIVED: IllegalMove.REFUSED, **_GONE})
_OVER: Final[_Row] = MappingProxyType({Status.ARCHIVED: IllegalMove.IGNORED, **_NOTHING_LEFT})
_UNASKED: Final[_Row] = MappingProxyType({Status.ARCHIVED: IllegalMove.HIDDEN, **_GONE})


def _unless(*allowed: Status) -> _Row:
    """Return the row of an operation that these statuses alone allow."""
    return {**{status: IllegalMove.REFUSED for status in Status if status not in allowed}, **_GONE}


OPERATIONS: Final[Mapping[str, _Row]] = MappingProxyType(
    {
        # A chat continues in another session, so its caller has to be told.
        "accept": {Status.ARCHIVED: IllegalMove.REFUSED, Status.DELETED: IllegalMove.REFUSED},
        # A background session that has ended is archived, and takes the reports of those that it spawned.
        "receive": _READ_ONLY,
        "decide_held": _UNASKED,
        "claim": _OVER,
        "stop": _OVER,
        "endorse": _OVER,
        "reset": {Status.PAUSED: IllegalMove.REFUSED, **_READ_ONLY},
        "name": _READ_ONLY,
        "queue_mode": _READ_ONLY,
        "withdraw": _READ_ONLY,
        "resolve": _UNASKED,
        "revoke_grant": _GONE,
        # A delivery from before the archiving still has to reach people.
        "put": _GONE,
        "record_key": _GONE,
        "decide_dead": _GONE,
        "note_loss": _GONE,
        "take": _NOTHING_LEFT,
        "settle": _NOTHING_LEFT,
        "pause": {Status.PAUSED: IllegalMove.IGNORED, **_READ_ONLY},
        # While it runs it may be paused already, and rest from the end of its turn.
        "resume": _unless(Status.PAUSED, Status.RUNNING),
        "archive": {Status.ARCHIVED: IllegalMove.IGNORED, **_GONE},
        "restore": _unless(Status.ARCHIVED),
        "steer": _UNASKED,
        "wake_run": _OVER,
        "fail": {Status.PAUSED: IllegalMove.IGNORED, **_OVER},
        "delete": _NOTHING_LEFT,
    }
)
"""Operation → status → its effect there. An operation has the name of its script."""


FENCED: Final = frozenset({"raise_taint", "commit", "renew", "release", "spend", "change_run"})
"""Operations that need a claim: archiving or deleting a session takes that away."""
