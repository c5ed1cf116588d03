"""When a run's breaker opens, for how long, and what closes it."""

from dataclasses import replace

import pytest

from bot.runs import breaker
from bot.sessions.background.run_states import Breaker, RunStatus
from bot.sessions.background.runs import Progress
from bot.sessions.limits import RunLimits

LIMITS = RunLimits(failures=3, cool_down=600_000)
HOUR = 3_600_000


@pytest.mark.parametrize("failures, opens", [(0, False), (3, False), (4, True)])
def test_it_opens_when_failures_in_a_row_exceed_the_threshold(failures: int, *, opens: bool) -> None:
    after = breaker.after(Progress(consecutive=failures), 0, 7, LIMITS)
    assert (after.breaker is Breaker.OPEN) == opens
    if opens:
        assert (after.status, after.opened_at, after.trips) == (RunStatus.PAUSED, 7, 1)


@pytest.mark.parametrize("before, now, trips", [(4, 5, 2), (5, 5, 0), (4, 0, 0)])
def test_a_turn_that_tries_again_closes_it_unless_it_fails_once_more(before: int, now: int, trips: int) -> None:
    tried = Progress(consecutive=now, breaker=Breaker.HALF_OPEN, opened_at=1, trips=1, status=RunStatus.PAUSED)
    after = breaker.after(tried, before, 9, LIMITS)
    assert after.trips == trips
    if trips:
        assert (after.breaker, after.opened_at, after.status) == (Breaker.OPEN, 9, RunStatus.PAUSED)
    else:
        closed = replace(tried, breaker=Breaker.CLOSED, opened_at=0, trips=0, consecutive=0, status=RunStatus.RUNNING)
        assert after == closed


@pytest.mark.parametrize("trips, minutes", [(1, 10), (2, 20), (3, 40), (4, 60), (5, 60), (10_000, 60)])
def test_the_cool_down_doubles_up_to_an_hour(trips: int, minutes: int) -> None:
    assert breaker.cool_down(trips, LIMITS) == minutes * 60_000
    assert breaker.retries_at(Progress(opened_at=5, trips=trips), LIMITS) == 5 + minutes * 60_000


def test_a_cool_down_above_an_hour_stays_as_it_is_configured() -> None:
    assert breaker.cool_down(3, RunLimits(cool_down=2 * HOUR)) == 2 * HOUR
