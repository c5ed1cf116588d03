"""The parts of a run in its session's record: its charter and its progress. No I/O here.

An unreadable part raises ValueError or a subclass, which `codec.reading` turns into the error for unknown records.
"""

import json
from dataclasses import replace
from typing import Any, Final, cast

from bot.sessions.background.run_states import AuthMethod, Breaker, EndReason, GapReason, RunStatus, RunType
from bot.sessions.background.runs import Charter, Gap, Progress
from bot.sessions.models import SessionState
from bot.store.records.form import Values, unpack
from bot.store.records.kinds import CHARTER, PROGRESS

_CHARTER: Final = (
    *("run", "deadline", "slot", "asker", "title", "asked_at", "deliver_to", "meant", "schedule", "due", "hops"),
)
"""The parts of a charter that are written as they are."""

_PLAIN: Final = (
    *("initialized_at", "task", "completed", "failed", "skipped", "consecutive", "opened_at", "trips", "aborting"),
    *("turns", "beat_at", "next_action"),
)
"""The parts of a progress that are written as they are."""

_STEP: Final = ("status", "consecutive", "breaker", "opened_at", "trips", "turns", "ended", "reason", "gaps")
"""The fields of a progress that the end of a turn writes; its tools and people write the others."""


def charter(value: Charter) -> Values:
    """Write the charter of a run."""
    return {**{name: getattr(value, name) for name in _CHARTER}, "type": value.type.value}


def read_charter(stored: bytes) -> Charter:
    """Read the charter of a run."""
    got = unpack(CHARTER, stored)
    return Charter(**{name: got[name] for name in _CHARTER}, type=RunType(got["type"]))


def progress(value: Progress) -> Values:
    """Write the progress of a run."""
    gaps = [[gap.since, gap.until, gap.reason.value] for gap in value.gaps]
    return {
        **{name: getattr(value, name) for name in _PLAIN},
        "status": "" if value.status is RunStatus.RUNNING else value.status.value,
        "auth_method": "" if value.auth_method is None else value.auth_method.value,
        "breaker": "" if value.breaker is Breaker.CLOSED else value.breaker.value,
        "ended": value.ended_at,
        "reason": "" if value.reason is None else value.reason.value,
        "gaps": json.dumps(gaps, separators=(",", ":")) if gaps else "",
    }


def step(value: Progress) -> Values:
    """Write the fields of a progress that the end of a turn sets, all of them: a blank one is blank from then on."""
    written = progress(value)
    return {name: written[name] for name in _STEP}


def read_progress(stored: bytes | None) -> Progress:
    """Read the progress of a run; nothing is stored for one that has just begun."""
    if stored is None:
        return Progress()
    got = unpack(PROGRESS, stored)
    gaps = cast("list[Any]", json.loads(got["gaps"])) if got["gaps"] else []
    return Progress(
        **{name: got[name] for name in _PLAIN},
        status=RunStatus(got["status"]) if got["status"] else RunStatus.RUNNING,
        auth_method=AuthMethod(got["auth_method"]) if got["auth_method"] else None,
        breaker=Breaker(got["breaker"]) if got["breaker"] else Breaker.CLOSED,
        ended_at=got["ended"],
        reason=EndReason(got["reason"]) if got["reason"] else None,
        gaps=tuple([Gap(since, until, GapReason(reason)) for since, until, reason in gaps]),
    )


def with_run(state: SessionState, charter: bytes | None, progress: bytes | None) -> SessionState:
    """Return a session's record with its run's parts; any other session has no charter."""
    if charter is None:
        return state
    return replace(state, charter=read_charter(charter), progress=read_progress(progress))
