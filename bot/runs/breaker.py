"""The circuit breaker of a run: it opens when failures follow one another, and pauses the run until it may try again.

Pure: the caller writes the result with the end of the turn that caused it. Closed, it opens when more failures came in
a row than configuration gives. After a cool-down, which doubles with each opening in a row up to an hour, one turn
tries again. A further failure opens it once more, a turn without one closes it.
"""

from dataclasses import replace
from typing import Final

from bot.sessions.background.run_states import Breaker, RunStatus
from bot.sessions.background.runs import Progress
from bot.sessions.limits import RunLimits

LONGEST: Final = 3_600_000
"""Milliseconds that a run is paused at most before it tries again."""


def cool_down(trips: int, limits: RunLimits) -> int:
    """Return for how many milliseconds the breaker stays open that opened for the `trips`-th time in a row."""
    doublings = min(max(trips - 1, 0), LONGEST.bit_length())
    return min(limits.cool_down * 2**doublings, max(LONGEST, limits.cool_down))


def retries_at(progress: Progress, limits: RunLimits) -> int:
    """Return when a run whose breaker is open tries again, in milliseconds on the store's clock."""
    return progress.opened_at + cool_down(progress.trips, limits)


def opened(progress: Progress, now: int) -> Progress:
    """Return how far a run came whose breaker opens now."""
    return replace(progress, breaker=Breaker.OPEN, opened_at=now, trips=progress.trips + 1, status=RunStatus.PAUSED)


def after(progress: Progress, before: int, now: int, limits: RunLimits) -> Progress:
    """Return how far a run came at the end of a turn, with its breaker as that leaves it.

    `before` is how many failures had followed one another when the turn began.
    """
    if progress.breaker is Breaker.HALF_OPEN:
        return opened(progress, now) if progress.consecutive > before else _closed(progress)
    if progress.breaker is Breaker.OPEN and progress.consecutive <= before:
        return replace(progress, status=RunStatus.PAUSED)
    return opened(progress, now) if progress.consecutive > limits.failures else progress


def _closed(progress: Progress) -> Progress:
    return replace(progress, breaker=Breaker.CLOSED, opened_at=0, trips=0, consecutive=0, status=RunStatus.RUNNING)
