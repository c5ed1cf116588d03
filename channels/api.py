"""The channel of programs: a session's output to a program is an event of the session's log, which the program reads.

This adapter sends nothing and listens to nothing; the server is `bot.api`. It tells who reads at a program's address:
that program alone.
"""

from typing import Final

from channels.messages import Address, Outbound, Signal
from channels.port import Audience

NAME: Final = "api"


class Api:
    """Lets sessions have their home with a program."""

    name = NAME
    marks_repeats = False
    marks_untrusted = False
    previews = False

    async def send(self, outbound: Outbound) -> str:  # noqa: ARG002 - the port gives it
        """Say nothing more: the answer is in the log already."""
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing: a program reads only finished texts."""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show nothing: a turn's events tell that it runs."""

    async def audience(self, address: Address) -> Audience:
        """Return the readers: the program of that name alone, always complete."""
        return Audience.of(f"{NAME}:{address.chat}")
