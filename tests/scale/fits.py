"""What grows, and how: a line through the figures at several sizes, its error, and what it says of larger ones.

Errors are relative, so that a small size counts as much as a large one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Growth(StrEnum):
    """How a figure is expected to grow with the number of sessions."""

    CONSTANT = "constant"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class Fit:
    """The line `base + slope * sessions`.

    Args:
        growth: What was expected.
        base: The figure without any session.
        slope: How much each session adds.
        residual: The largest distance of a figure from the line, as a part of the figure.
    """

    growth: Growth
    base: float
    slope: float
    residual: float

    def at(self, sessions: int) -> float:
        """Return what the line says of a size."""
        return self.base + self.slope * sessions

    def __str__(self) -> str:
        line = f"{self.base:.4g}" if self.growth is Growth.CONSTANT else f"{self.base:.4g} + {self.slope:.4g} n"
        return f"{line}, within {self.residual:.0%}"


def fitted(figures: Mapping[int, float], growth: Growth) -> Fit:
    """Return the line through figures by their sizes with the least sum of squares of relative errors.

    Neither a part of it is below zero. Raises ValueError: there is no figure, or one is not above zero.
    """
    if not figures or min(figures.values()) <= 0:
        raise ValueError("a line needs figures above zero")
    weighed = [(size, figure, 1 / figure**2) for size, figure in figures.items()]
    total = sum(weight for *_, weight in weighed)
    mean = sum(size * weight for size, _, weight in weighed) / total
    level = sum(figure * weight for _, figure, weight in weighed) / total
    spread = sum(weight * (size - mean) ** 2 for size, _, weight in weighed)
    slope = 0.0
    if growth is Growth.LINEAR and spread:
        slope = max(sum(weight * (size - mean) * (figure - level) for size, figure, weight in weighed) / spread, 0.0)
    base = level - slope * mean
    if base < 0:
        # Through the origin.
        squares = sum(weight * size**2 for size, _, weight in weighed)
        base, slope = 0.0, sum(weight * size * figure for size, figure, weight in weighed) / squares
    residual = max(abs(base + slope * size - figure) / figure for size, figure, _ in weighed)
    return Fit(growth, base, slope, residual)
