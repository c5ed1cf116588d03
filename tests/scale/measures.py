"""The figures of one size of a store, and what each is expected to do as the number of sessions grows."""

from dataclasses import dataclass
from typing import Final

from tests.bench.measure import Goal, Row, at_most, ratio_at_most
from tests.scale.fits import Growth

_MIB: Final = 2**20
_FLAT: Final = ratio_at_most(1.5)
_STEADY: Final = ratio_at_most(2)
"""Where the work of a piece must not grow, but a larger store misses the caches of processor and disk more often."""

_UNBOUNDED: Final = at_most(float("inf"))


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure: its name, its unit, how it grows, and its goal at every size.

    What grows without a goal of its own is documented; `shown` is its heading in the table.
    """

    name: str
    unit: str
    growth: Growth
    goal: Goal = _UNBOUNDED
    shown: str = ""


MEASURES: Final = (
    Measure("memory", "MiB", Growth.LINEAR, shown="memory of the store"),
    Measure("resident", "MiB", Growth.LINEAR),
    Measure("disk", "MiB", Growth.LINEAR, shown="disk, just rewritten"),
    Measure("disk_longest", "MiB", Growth.LINEAR, shown="disk, at most"),
    Measure("rewrite", "s", Growth.LINEAR, shown="rewriting the file"),
    Measure("fork", "ms", Growth.LINEAR, shown="pause as that begins"),
    Measure("restart", "s", Growth.LINEAR),
    Measure("restart_longest", "s", Growth.LINEAR, shown="restart of the store, at most"),
    Measure("first_answer", "s", Growth.LINEAR, shown="first answer after it"),
    Measure("message_p50", "ms", Growth.CONSTANT, _FLAT, "message, p50"),
    Measure("message_p99", "ms", Growth.CONSTANT, shown="message, p99"),
    Measure("accept", "ms", Growth.CONSTANT, _FLAT),
    Measure("claim", "ms", Growth.CONSTANT, _FLAT),
    Measure("list_person", "ms", Growth.CONSTANT, _FLAT),
    Measure("list_recent", "ms", Growth.CONSTANT, _FLAT),
    Measure("sweep", "ms", Growth.CONSTANT, at_most(250), "one sweep"),
    Measure("healing", "s", Growth.LINEAR, shown="a lost hint is found within"),
    Measure("backup", "s", Growth.CONSTANT, _STEADY, "backup of 10,000 sessions"),
    Measure("verify", "s", Growth.CONSTANT, _STEADY, "verifying 1,000 chains"),
    Measure("usage", "ms", Growth.LINEAR, shown="`/usage all`"),
    Measure("let_in", "ms", Growth.LINEAR, shown="letting a person in"),
    Measure("delete", "ms", Growth.LINEAR, shown="deleting a session"),
    Measure("anchors_read", "s", Growth.LINEAR, shown="reading the anchors"),
    Measure("anchors_memory", "MiB", Growth.LINEAR, shown="anchors, in each process"),
)

_FIRST_ANSWER: Final = "first_answer"
_FIRST_ANSWER_SIZE: Final = 100_000
_FIRST_ANSWER_GOAL: Final = at_most(2, machine=1.2)
"""Seconds; the machine that they are stated for gives a first answer from a small store within 1.2 seconds."""


def row(measure: Measure, size: int, figure: float, reference: float) -> Row:
    """Return the line of a figure at a size; the reference is the figure of the smallest size in the same run."""
    first = measure.name == _FIRST_ANSWER and size <= _FIRST_ANSWER_SIZE
    goal = _FIRST_ANSWER_GOAL if first else measure.goal
    return Row(f"{measure.name}_{size}", figure, measure.unit, reference, goal)


def mebibytes(size: float) -> float:
    """Return bytes in MiB."""
    return size / _MIB
