"""What every benchmark shares: a row with its goal, and timing a subject and its reference by turns.

A machine that others use is slow at times; subject and reference therefore alternate, and each round is compared with
itself. What is told of a reference is what makes the ratio the median of all rounds, and rounds are repeated until that
median is settled. The ratio of one run says more than either of its figures, so goals are ratios. A bound on a value
counts where the reference shows that the machine is as fast as the one it was stated for; elsewhere it is the same
multiple of the reference.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Final

_DIGITS: Final = 4

_SETTLED: Final = 0.04
"""How wide the interval may be, as a part of a median ratio, in which that lies with a probability of 95 %."""
_MOST: Final = 6
"""How often the rounds of a measurement are repeated at most."""
_LONGEST: Final = 8.0
"""Seconds after which they are not repeated any more."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row has to reach: a bound on its value or on its ratio to the reference, from above or from below.

    A bound on a value was stated for a machine on which the reference is at most `machine`, None for any: on a slower
    one it grows with the reference.
    """

    of: str
    bound: float
    at_least: bool = False
    machine: float | None = None

    def strain(self, value: float, reference: float | None) -> float:
        """Return the share of what the goal allows that was used: it is met up to 1."""
        judged, bound = value, self.bound
        if self.of == "ratio" and reference is not None:
            judged = value / reference
        elif self.machine is not None and reference is not None:
            bound *= max(reference / self.machine, 1)
        if self.at_least:
            return bound / judged if judged else inf
        return judged / bound

    def __str__(self) -> str:
        told = f"{self.of} {'>=' if self.at_least else '<='} {self.bound:g}"
        return told if self.machine is None else f"{told} where reference <= {self.machine:g}"


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
    def strain(self) -> float:
        return self.goal.strain(self.value, self.reference)

    @property
    def met(self) -> bool:
        return self.strain <= 1

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


def at_most(bound: float, *, machine: float | None = None) -> Goal:
    return Goal("value", bound, machine=machine)


def ratio_at_most(bound: float) -> Goal:
    return Goal("ratio", bound)


def ratio_at_least(bound: float) -> Goal:
    return Goal("ratio", bound, at_least=True)


def by_turns(*work: Callable[[], object], rounds: int, repeats: int = 1, longest: float = _LONGEST) -> list[float]:
    """Return the seconds of one call of each, over rounds of `repeats` calls taken by turns, as `Rounds.medians`.

    There are as many `rounds`, and as many again until the medians are settled, for `longest` seconds at most.
    """

    def timed(call: Callable[[], object]) -> float:
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - begin) / repeats

    taken = Rounds(rounds, longest)
    while taken.wanted:
        taken.add(timed(call) for call in work)
    return taken.medians()


async def by_turns_async(*work: Callable[[], Awaitable[float]], rounds: int, longest: float = _LONGEST) -> list[float]:
    """Return what each returns, over rounds taken by turns, as `by_turns`; each measures itself.

    After `longest` seconds rounds are not repeated any more.
    """
    taken = Rounds(rounds, longest)
    while taken.wanted:
        taken.add([await call() for call in work])
    return taken.medians()


async def warm(*work: Callable[[], Awaitable[float]], rounds: int) -> None:
    """Let each run by turns as often, before it is measured."""
    for _ in range(rounds):
        for call in work:
            await call()


class Rounds:
    """What was measured in each round: one figure of a subject, and one of each of its references.

    There are as many `rounds` as that, and as many again for `longest` seconds at most.
    """

    def __init__(self, rounds: int, longest: float = _LONGEST) -> None:
        self._rounds = rounds
        self._longest = longest
        self._taken: list[tuple[float, ...]] = []
        self._begin = time.perf_counter()

    @property
    def wanted(self) -> bool:
        """Whether another round is to be measured."""
        done = len(self._taken)
        if done == 0 or done % self._rounds:
            return True
        late = time.perf_counter() - self._begin > self._longest
        return not (late or done >= self._rounds * _MOST or all(map(_settled, self._ratios())))

    def add(self, figures: Iterable[float]) -> None:
        """Note what one round gave."""
        self._taken.append(tuple(figures))

    def medians(self) -> list[float]:
        """Return the subject's median, and of each reference what makes their ratio the median of all rounds."""
        subject = median(one[0] for one in self._taken)
        return [subject, *(subject / median(ratios) for ratios in self._ratios())]

    def _ratios(self) -> list[list[float]]:
        return [[one[0] / one[n] for one in self._taken] for n in range(1, len(self._taken[0]))]


def _settled(ratios: list[float]) -> bool:
    """Say whether the median of these is known well enough: by their order, whatever they are distributed like."""
    ordered, middle = sorted(ratios), len(ratios) / 2
    away = 0.98 * len(ratios) ** 0.5
    low, high = ordered[max(int(middle - away), 0)], ordered[min(int(middle + away), len(ordered) - 1)]
    return high - low <= _SETTLED * median(ordered)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.{_DIGITS}g}")
