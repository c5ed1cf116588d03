"""How fast may be said: rates of a place and of a channel, and the port of the store that keeps whose turn it is.

All of it is a hint that lives for an hour: lost, a text goes out too early, and none is lost.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

EVERYWHERE: Final = "all"
"""Name of the one rate that counts for a whole channel; any other counts for each place by itself."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once, and one more every `every` milliseconds. What has the same name is counted together."""

    name: str
    every: int
    burst: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that wants to be said at an address, an address' text.

    `sid` and `key` name the delivery, both empty for what takes no turn, such as an answer to a command.
    """

    address: str
    sid: str = ""
    key: str = ""


class Hush(StrEnum):
    """What is silent for a while: a channel, a place, an address that is dead, or one text alone."""

    CHANNEL = "channel"
    PLACE = "place"
    ADDRESS = "address"
    TEXT = "text"


class PaceStore(Protocol):
    """Whose turn it is to say something at a place, and when there is room."""

    async def pace(self, turn: Turn, rates: tuple[Rate, ...]) -> int | None:
        """Ask to say something now; return the milliseconds to wait first, 0 for now, None for a dead address.

        With 0 the place is taken until the delivery is settled or its sender's hold ends. Who waits keeps his turn.
        """
        ...

    async def hush(self, turn: Turn, what: Hush, wait: int) -> None:
        """Note that nothing can be said for `wait` milliseconds. What was turned away keeps its turn.

        An address is dead only if nothing came in from its place since `pace` let this turn through.
        """
        ...

    async def heard(self, address: str) -> None:
        """Note that something came in from an address: what is dead in its place is not any more."""
        ...
