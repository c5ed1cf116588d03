"""The port every adapter implements, and the errors it normalises its platform's to."""

from dataclasses import dataclass
from typing import Protocol

from channels.message import Address, Outbound, Signal


class ChannelError(Exception):
    """A send failed for certain; nobody saw the text."""


class AmbiguousSendError(ChannelError):
    """Nobody knows whether the text was seen; it is never repeated silently."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who reads at an address, now: account ids. `complete` is false when the platform cannot tell."""

    accounts: frozenset[str]
    complete: bool
    shared: bool = False


class Channel(Protocol):
    """What the application asks of an adapter."""

    @property
    def name(self) -> str:
        """The first part of its addresses."""
        ...

    @property
    def marks_repeats(self) -> bool:
        """Whether it can show a text again with a mark that it may have been seen; otherwise it is reported."""
        ...

    async def send(self, outbound: Outbound) -> None:
        """Say it.

        Raises ChannelError: it was certainly not said. AmbiguousSendError: nobody knows.
        """
        ...

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on; failing is no error."""
        ...

    async def audience(self, address: Address) -> Audience:
        """Tell who reads at the address now."""
        ...
