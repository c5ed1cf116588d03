"""The statistics of a run: rates, averages, tokens and cost.

The tool `session_get_stats`, commands, the API and the command line tell the same numbers. An unknown number is None,
never 0.
"""

from dataclasses import dataclass

from bot.sessions.background.runs import Progress
from bot.sessions.usage import Usage


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """A run in numbers.

    `runtime_seconds` is since it was started, until it ended. Rates are shares of the tasks that are done with, None
    before there is one; so is `seconds_per_task`. `tokens` is None where a provider did not report all of them, and
    `cost`, in millionths of the currency of the configured prices, where a part is unknown.
    """

    runtime_seconds: float
    completed: int
    failed: int
    skipped: int
    completion_rate: float | None
    failure_rate: float | None
    skip_rate: float | None
    seconds_per_task: float | None
    turns: int
    tokens: int | None
    cost: int | None


def statistics(progress: Progress, usage: Usage, *, started_at: int, now: int) -> RunStatistics:
    """Return a run in numbers; `started_at` and `now` in milliseconds on the store's clock."""
    runtime = max((progress.ended_at or now) - started_at, 0) / 1000
    tasks = progress.completed + progress.failed + progress.skipped

    def share(part: float) -> float | None:
        return round(part / tasks, 4) if tasks else None

    return RunStatistics(
        runtime_seconds=runtime,
        completed=progress.completed,
        failed=progress.failed,
        skipped=progress.skipped,
        completion_rate=share(progress.completed),
        failure_rate=share(progress.failed),
        skip_rate=share(progress.skipped),
        seconds_per_task=share(runtime),
        turns=progress.turns,
        tokens=usage.input_tokens + usage.output_tokens if usage.complete else None,
        cost=usage.cost if usage.priced else None,
    )
