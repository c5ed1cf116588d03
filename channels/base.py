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

    @property
    def previews(self) -> bool:
        """Whether it can show a text that is still being written; otherwise nothing is shown until it is finished."""
        ...

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written, in the place of what was shown of it before.

        An empty one takes it back, and so does `Signal.DONE`; a `send` with the same key stands in its place.

        Raises ChannelError: it was not shown.
        """
        ...

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on; failing is no error."""
        ...

    async def audience(self, address: Address) -> Audience:
        """Tell who reads at the address now."""
        ...
