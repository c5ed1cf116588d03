"""The loop of a run: the effect of a turn's end on it.

Pure: `after` takes the run's progress and its turn's end, and returns the changes to write with that end, in one step.
An autonomous run goes on with a continuation until its agent or people stop it, or a limit or its deadline is reached.
It also ends once it was asked to end and had a whole turn for that. A manual one waits for messages. A breaker pauses
either.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bot.runs import breaker
from bot.sessions.background.run_states import Breaker, EndReason, GapReason, RunStatus, RunType
from bot.sessions.background.runs import Charter, Gap, Progress, RunStep
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
"""The runtime's messages to a run; none of them tells of anything outside the run's own records."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn of a run ended."""

    started_at: int
    """The turn's beginning, in milliseconds on the store's clock."""
    consecutive: int
    """The number of failures in a row by then."""
    in_order: bool
    """False for a turn whose agent gave no answer."""
    late: bool = False
    """The time of its run was over."""
    mend: bool = False
    """An operator must mend the fault that kept it from an answer."""
    stopped: bool = False
    """People stopped it."""
    spent: bool = False
    """A budget is used up."""
    hopeless: bool = False
    """No further turn will do better."""
    taken: bool = False
    """Another run of its pool has the slot that it may lock."""
    gaps: tuple[Gap, ...] = ()
    """The gaps within it and before it."""


class RunNewsKind(StrEnum):
    """The kinds of notices to people about a run."""

    ENDED = "ended"
    TRIPPED = "tripped"
    MEND = "mend"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class NextStep:
    """The consequences of a turn's end."""

    step: RunStep
    """The changes to write."""
    news: RunNewsKind | None = None
    """The notice to people, None for none."""
    probe_at: int = 0
    """The time at which a paused run tries again, 0 if it does not try again by itself."""


def after(charter: Charter, progress: Progress, turn: TurnOutcome, *, now: int, limits: RunLimits) -> NextStep:
    """Return the consequences of a turn's end; `progress` is the run's progress by then, as its tools reported."""
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
    """Return the runtime's message when a turn of a run has ended, empty for a run that waits for messages."""
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
    """Return the runtime's message when a run whose breaker opened may try again."""
    return PROBE.format(consecutive=progress.consecutive, then=_then(progress))


def resumed(progress: Progress) -> str:
    """Return the runtime's message when a run that paused itself goes on."""
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
