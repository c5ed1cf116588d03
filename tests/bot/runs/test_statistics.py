"""What the counters of a run come to, and what is not known of it."""

from bot.runs.statistics import RunStatistics, statistics
from bot.sessions.background.runs import Progress
from bot.sessions.usage import Usage


def test_rates_are_shares_of_the_tasks_that_are_done_with() -> None:
    done = Progress(completed=2, failed=1, skipped=1, turns=3, ended_at=61_000)
    told = statistics(done, Usage(3, 10, 20, cost=7), started_at=1_000, now=99_000)
    assert told == RunStatistics(60.0, 2, 1, 1, 0.5, 0.25, 0.25, 15.0, 3, 30, 7)


def test_what_is_not_known_is_not_zero() -> None:
    told = statistics(Progress(), Usage(1, 5, 5, complete=False, priced=False), started_at=2_000, now=1_000)
    assert (told.runtime_seconds, told.tokens, told.cost) == (0.0, None, None)
    assert {told.completion_rate, told.failure_rate, told.skip_rate, told.seconds_per_task} == {None}
