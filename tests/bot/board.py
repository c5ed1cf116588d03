"""A channel for tests whose messages can be edited: a board for everybody's own, and one that all read."""

import itertools
from dataclasses import dataclass, field

from channels.messages import Address, Outbound, Signal
from channels.port import Audience, ChannelError


@dataclass
class Board:
    """Implements the port `Channel`.

    `stands` is what stands where by its receipt, `fails` what edits, and if it `refuses` also other texts, meet
    with by chat.
    """

    everybody: frozenset[str] = frozenset()
    name: str = "board"
    marks_repeats: bool = True
    marks_untrusted: bool = True
    previews: bool = False
    stands: dict[str, Outbound] = field(default_factory=dict[str, Outbound])
    fails: dict[str, list[ChannelError]] = field(default_factory=dict[str, list[ChannelError]])
    edits: int = 0
    refuses: bool = False
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    async def send(self, outbound: Outbound) -> str:
        receipt = outbound.replaces or f"note {next(self._count)}"
        if outbound.replaces:
            self.edits += 1
        if (outbound.replaces or self.refuses) and (waiting := self.fails.get(outbound.address.chat)):
            raise waiting.pop(0)
        self.stands[receipt] = outbound
        return receipt

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing before it is finished."""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show nothing."""

    async def audience(self, address: Address) -> Audience:
        if address.chat == "all" and not address.recipient:
            return Audience.of(*self.everybody, shared=True)
        return Audience.of(f"board:{address.recipient or address.chat}")

    def at(self, chat: str) -> list[Outbound]:
        """Return what stands in a chat, in the order it was first said."""
        return [one for one in self.stands.values() if one.address.chat == chat]
