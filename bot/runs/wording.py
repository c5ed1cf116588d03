"""Notices to people about a run: constants with its counts, and no words of its model or its sources."""

from types import MappingProxyType
from typing import Final

from bot.runs import breaker
from bot.runs.loop import RunNewsKind
from bot.sessions.background.run_states import EndReason
from bot.sessions.background.runs import Charter, Progress
from bot.sessions.limits import RunLimits

ENDED: Final = "Run {run} has ended: {why}.\nTasks: {completed} completed, {failed} failed, {skipped} skipped."
TRIPPED: Final = "Run {run} is paused: {consecutive} failures came in a row. It tries again in {minutes} min."
MEND: Final = "Run {run} is paused until an operator mends its model or agent. It tries again in {minutes} min."
PAUSED: Final = "Run {run} paused itself. `/runs resume {run}` lets it go on."

_WHY: Final = MappingProxyType(
    {
        EndReason.COMPLETED: "it has done its work",
        EndReason.STOPPED: "a person stopped it",
        EndReason.ABORTED: "a steering note told it to end",
        EndReason.DEADLINE: "its time is over",
        EndReason.LIMIT: "it reached a limit",
        EndReason.SLOT_LOCKED: "another run has its slot",
        EndReason.NOT_INITIALIZED: "it did not call `session_initialize` in its first turn",
        EndReason.FAILED: "it could not go on",
    }
)
_MINUTE: Final = 60_000


def news(kind: RunNewsKind, charter: Charter, progress: Progress, limits: RunLimits) -> str:
    """Return the notice to people about a run."""
    run = charter.run
    if kind is RunNewsKind.PAUSED:
        return PAUSED.format(run=run)
    if kind is RunNewsKind.ENDED and progress.reason is not None:
        return ENDED.format(
            run=run,
            why=_WHY[progress.reason],
            completed=progress.completed,
            failed=progress.failed,
            skipped=progress.skipped,
        )
    minutes = max(1, breaker.cool_down(progress.trips, limits) // _MINUTE)
    if kind is RunNewsKind.MEND:
        return MEND.format(run=run, minutes=minutes)
    return TRIPPED.format(run=run, consecutive=progress.consecutive, minutes=minutes)
