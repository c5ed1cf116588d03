"""The clocks of the store's servers, compared with that of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

APART_MS: Final = 2_000
"""Milliseconds by which two clocks may differ: so much is tolerated, and not reported."""


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The clock of one server.

    Args:
        name: The server's address, empty where the store is one server.
        ahead_ms: How many milliseconds it is ahead of this machine's clock, negative if it is behind.
    """

    name: str
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """The two clocks that are the furthest apart: that of this machine is called `None`.

    Args:
        ahead: The server whose clock is ahead.
        behind: The server whose clock is behind.
        ms: By how many milliseconds.
        compared: How many servers were compared.
    """

    ahead: str | None
    behind: str | None
    ms: int
    compared: int

    @property
    def matters(self) -> bool:
        """Whether it is more than may be tolerated."""
        return self.ms > APART_MS


def difference(clocks: Sequence[NodeClock]) -> ClockDifference:
    """Return the largest difference between clocks, that of this machine among them."""
    known: list[tuple[int, str | None]] = [(0, None), *((one.ahead_ms, one.name) for one in clocks)]
    behind, ahead = min(known, key=lambda one: one[0]), max(known, key=lambda one: one[0])
    return ClockDifference(ahead[1], behind[1], ahead[0] - behind[0], len(clocks))
