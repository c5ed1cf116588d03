"""The loop of a run: what the end of a turn means for it.

Pure: `after` takes how far the run came and how its turn ended, and returns what is written with that end, in one step.
An autonomous run goes on with a continuation, until its agent stops it, people do, a limit or its deadline is reached,
or it was told to end and had a whole turn for that. A manual one waits for what it is told. A breaker pauses either.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bot.runs import breaker
from bot.sessions.background.runs import (
    Breaker,
    Charter,
    EndReason,
    Gap,
    GapReason,
    Progress,
    RunStatus,
    RunStep,
    RunType,
)
from bot.sessions.limits import RunLimits

MOST_GAPS: Final = 50
"""Gaps that are kept of a run; the oldest go first."""

INITIALIZE: Final = "Call `session_initialize` first, in a step of its own."
GO_ON: Final = "Go on with the goal. Call `steering_heartbeat` first: steering notes may wait."
END: Final = (
    "This run was told to end. Finish safely in this turn, then stop with `session_update`: it is the last one."
)
CONTINUES: Final = (
    "Turn {turns} of this run has ended. Tasks: {completed} completed, {failed} failed, {skipped} skipped. {then}"
)
PROBE: Final = (
    "This run was paused after {consecutive} failures in a row. It may try once more: a turn without a failure lets it"
    " go on. {then}"
)
RESUMES: Final = "This run was paused and goes on now. {then}"
OVER: Final = "The time of this run is over."
"""What the runtime says to a run; none of it tells of anything outside the run's own records."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn of a run ended.

    `started_at` is when it began, and `consecutive` how many failures had followed one another by then. `in_order` is
    false for one whose agent gave no answer, and `late` tells that the time of its run was over. `mend` tells that an
    operator must mend what kept it from an answer, `stopped` that people stopped it, `spent` that a budget is used up,
    `hopeless` that none will do better. `taken` tells that another run of its pool has the slot that it may lock.
    `gaps` are those within it and before it.
    """

    started_at: int
    consecutive: int
    in_order: bool
    late: bool = False
    mend: bool = False
    stopped: bool = False
    spent: bool = False
    hopeless: bool = False
    taken: bool = False
    gaps: tuple[Gap, ...] = ()


class RunNewsKind(StrEnum):
    """What people are told of a run."""

    ENDED = "ended"
    TRIPPED = "tripped"
    MEND = "mend"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What follows from the end of a turn: what is written, what people are told, and when a paused run tries again.

    `news` is None where nobody is told, `probe_at` 0 where it does not try again by itself.
    """

    step: RunStep
    news: RunNewsKind | None = None
    probe_at: int = 0


def after(charter: Charter, progress: Progress, turn: TurnOutcome, *, now: int, limits: RunLimits) -> NextStep:
    """Return what the end of a turn means; `progress` is how far the run came by then, as its tools told."""
    failed = not (turn.in_order or turn.mend or turn.stopped or turn.spent)
    counted = replace(
        progress,
        turns=progress.turns + 1,
        consecutive=progress.consecutive + failed,
        gaps=_gaps(progress, turn),
    )
    reason = _end(charter, counted, turn, now=now, limits=limits)
    if reason is not None:
        ended = replace(counted, status=RunStatus.STOPPED, ended_at=now, reason=reason, gaps=_closed(counted.gaps, now))
        return NextStep(RunStep(ended), RunNewsKind.ENDED)
    moved = breaker.opened(counted, now) if turn.mend else breaker.after(counted, turn.consecutive, now, limits)
    if moved.breaker is Breaker.OPEN and moved.trips == counted.trips:
        # Somebody spoke to a run that is paused: it waits on as before.
        paused = replace(moved, gaps=_kept((*moved.gaps, Gap(now, 0, GapReason.BREAKER))))
        return NextStep(RunStep(paused), None, min(max(breaker.retries_at(paused, limits), now), charter.deadline))
    if moved.breaker is Breaker.OPEN:
        paused = replace(moved, gaps=_kept((*moved.gaps, Gap(now, 0, GapReason.BREAKER))))
        news = RunNewsKind.MEND if turn.mend else RunNewsKind.TRIPPED
        return NextStep(RunStep(paused), news, min(breaker.retries_at(paused, limits), charter.deadline))
    if moved.status is RunStatus.PAUSED:
        waits = replace(moved, gaps=_kept((*moved.gaps, Gap(now, 0, GapReason.PAUSED))))
        return NextStep(RunStep(waits), RunNewsKind.PAUSED)
    return NextStep(RunStep(moved, continuation(charter, moved), charter.hops))


def continuation(charter: Charter, progress: Progress) -> str:
    """Return what the runtime says when a turn of a run has ended, empty for one that waits for what it is told."""
    if charter.type is RunType.MANUAL:
        return ""
    return CONTINUES.format(
        turns=progress.turns,
        completed=progress.completed,
        failed=progress.failed,
        skipped=progress.skipped,
        then=_then(progress),
    )


def probe(progress: Progress) -> str:
    """Return what the runtime says when a run whose breaker opened may try again."""
    return PROBE.format(consecutive=progress.consecutive, then=_then(progress))


def resumed(progress: Progress) -> str:
    """Return what the runtime says when a run that paused itself goes on."""
    return RESUMES.format(then=_then(progress))


def _then(progress: Progress) -> str:
    if not progress.initialized:
        return INITIALIZE
    return END if progress.aborting else GO_ON


def _end(charter: Charter, progress: Progress, turn: TurnOutcome, *, now: int, limits: RunLimits) -> EndReason | None:
    """Return why a run ends with this turn, None for one that goes on."""
    uninitialized = turn.in_order and not progress.initialized
    reasons = (
        (turn.stopped, EndReason.STOPPED),
        (progress.status is RunStatus.STOPPED, EndReason.COMPLETED),
        (turn.late or now >= charter.deadline, EndReason.DEADLINE),
        (turn.spent or progress.turns >= limits.turns, EndReason.LIMIT),
        (turn.hopeless, EndReason.FAILED),
        (0 < progress.aborting <= turn.started_at, EndReason.ABORTED),
        (uninitialized and turn.taken, EndReason.SLOT_LOCKED),
        (uninitialized and charter.type is RunType.AUTONOMOUS, EndReason.NOT_INITIALIZED),
    )
    return next((reason for holds, reason in reasons if holds), None)


def _gaps(progress: Progress, turn: TurnOutcome) -> tuple[Gap, ...]:
    """Return the gaps of a run with those of its turn: one that lasted ended when the turn began."""
    return _kept((*_closed(progress.gaps, turn.started_at), *turn.gaps))


def _closed(gaps: tuple[Gap, ...], at: int) -> tuple[Gap, ...]:
    return tuple(gap if gap.until else replace(gap, until=max(at, gap.since)) for gap in gaps)


def _kept(gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    return gaps[-MOST_GAPS:]
