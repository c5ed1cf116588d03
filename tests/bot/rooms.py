"""A channel of shared chats for tests: who reads where is what the test says, and what is said is kept."""

from dataclasses import dataclass, field

from channels.base import Audience
from channels.message import Address, Outbound, Signal


@dataclass
class Rooms:
    """Implements the port `Channel`."""

    readers: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    said: list[str] = field(default_factory=list[str])
    name: str = "room"
    marks_repeats: bool = False
    previews: bool = False
    shared: bool = True
    complete: bool = True

    async def send(self, outbound: Outbound) -> str:
        self.said.append(outbound.text)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing before it is finished."""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show nothing."""

    async def audience(self, address: Address) -> Audience:
        return Audience.of(*self.readers.get(address.chat, ()), complete=self.complete, shared=self.shared)
