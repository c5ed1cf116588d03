"""What every benchmark shares: a row with its goal, and timing a subject and its reference by turns.

A machine that others use is slow at times; batches of subject and reference therefore alternate, and medians are
compared. The ratio of one run says more than either of its figures.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row has to reach: a bound on its value or on its ratio to the reference, from above or from below."""

    of: str
    bound: float
    at_least: bool = False

    def met(self, value: float, ratio: float | None) -> bool:
        judged = value if self.of == "value" or ratio is None else ratio
        return judged >= self.bound if self.at_least else judged <= self.bound

    def __str__(self) -> str:
        return f"{self.of} {'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report; `reference` is in the same unit, None where the goal is a plain number."""

    name: str
    value: float
    unit: str
    reference: float | None
    goal: Goal

    @property
    def ratio(self) -> float | None:
        return None if self.reference is None else self.value / self.reference

    @property
    def met(self) -> bool:
        return self.goal.met(self.value, self.ratio)

    def line(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "value": _rounded(self.value),
                "unit": self.unit,
                "reference": _rounded(self.reference),
                "ratio": _rounded(self.ratio),
                "goal": str(self.goal),
                "met": self.met,
            },
            ensure_ascii=False,
        )


def at_most(bound: float) -> Goal:
    return Goal("value", bound)


def ratio_at_most(bound: float) -> Goal:
    return Goal("ratio", bound)


def ratio_at_least(bound: float) -> Goal:
    return Goal("ratio", bound, at_least=True)


def by_turns(*work: Callable[[], object], rounds: int, repeats: int = 1) -> list[float]:
    """Return the median seconds of one call of each, over `rounds` batches of `repeats` calls taken by turns."""
    taken: list[list[float]] = [[] for _ in work]
    for _ in range(rounds):
        for times, call in zip(taken, work, strict=True):
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            times.append((time.perf_counter() - begin) / repeats)
    return [median(times) for times in taken]


async def by_turns_async(*work: Callable[[], Awaitable[float]], rounds: int) -> list[float]:
    """Return the medians of what each returns, over `rounds` calls taken by turns; each measures itself."""
    taken: list[list[float]] = [[] for _ in work]
    for _ in range(rounds):
        for times, call in zip(taken, work, strict=True):
            times.append(await call())
    return [median(times) for times in taken]


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
