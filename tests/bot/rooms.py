"""A channel for tests, of shared chats whose readers the test names and of everybody's own private one.

What is said and shown there is kept. With it an application and people who talk to it, who are the same in every test.
"""

import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.app.app import App
from bot.app.extensions import Extensions
from bot.ingress.router import RouterReceipt
from channels.messages import Address, Inbound, Outbound, Signal
from channels.port import Audience
from tests.bot.kit import policy
from tests.harness import Person, running
from tests.people import principal

TEAM = Address("room", "team")
PEOPLE = {
    "owner": principal("console:owner"),
    "ann": principal("room:ann", role="admin", clearance="CONFIDENTIAL"),
    "mel": principal("room:mel", role="member", clearance="INTERNAL"),
    "eve": principal("room:eve", role="guest", clearance="PUBLIC"),
}
CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "room": {"classification": "CONFIDENTIAL", "overshoot": "allow"},
}
CHATS = {"team": {"channel": "room", "chat": "team", "classification": "CONFIDENTIAL"}}


@dataclass
class Rooms:
    """Implements the port `Channel`; `readers` are those of the shared chats, by chat.

    A private chat is named after its owner.
    """

    readers: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    sent: list[Outbound] = field(default_factory=list[Outbound])
    signals: list[tuple[Address, Signal]] = field(default_factory=list[tuple[Address, Signal]])
    name: str = "room"
    marks_repeats: bool = False
    marks_untrusted: bool = True
    previews: bool = False
    complete: bool = True

    @property
    def said(self) -> list[str]:
        """Everything that was said, in order."""
        return [outbound.text for outbound in self.sent]

    def heard(self, address: Address) -> list[str]:
        """Return what was said at an address."""
        return [outbound.text for outbound in self.sent if outbound.address == address]

    def alone(self, who: str) -> list[str]:
        """Return what one person alone got to see in the shared chat of the team."""
        return self.heard(Address(self.name, TEAM.chat, recipient=who))

    async def send(self, outbound: Outbound) -> str:
        self.sent.append(outbound)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing before it is finished."""

    async def signal(self, address: Address, signal: Signal) -> None:
        self.signals.append((address, signal))

    async def audience(self, address: Address) -> Audience:
        if address.chat in self.readers:
            return Audience.of(*self.readers[address.chat], complete=self.complete, shared=True)
        return Audience.of(f"{self.name}:{address.chat}")


def team(*readers: str) -> Rooms:
    """Return rooms of which one is the team's, with these people in it."""
    return Rooms({TEAM.chat: frozenset(f"room:{reader}" for reader in readers)})


@dataclass
class People:
    """People who talk to an application, in the team's room unless they say where."""

    app: App
    rooms: Rooms
    spoken: int = 0

    async def say(self, who: str, text: str, address: Address = TEAM, **facts: object) -> RouterReceipt:
        """Say something to the bot and wait until its session rests."""
        receipt = await self.send(who, text, address, **facts)
        await self.settled(address)
        return receipt

    async def send(self, who: str, text: str, address: Address = TEAM, **facts: object) -> RouterReceipt:
        """Say something to the bot."""
        self.spoken += 1
        given = {"private": address.chat not in self.rooms.readers, **facts}
        inbound = Inbound(address, f"room:{who}", text, f"n{self.spoken}", **given)  # pyright: ignore[reportArgumentType] - as given
        return await self.app.router.receive(inbound)

    async def settled(self, address: Address = TEAM) -> None:
        """Wait until the session of an address rests."""
        await Person(self.app, io.StringIO(), address).settled()


@asynccontextmanager
async def talking(
    folder: Path, rooms: Rooms, *, serve: bool = True, parts: Extensions | None = None, **sections: object
) -> AsyncGenerator[People]:
    """Open an application for people who talk in rooms; `sections` are those of the policy that differ."""
    config = policy(**{"principals": PEOPLE, "channels": CHANNELS, "chats": CHATS, **sections})
    async with running(folder, config, serve=serve, parts=parts, channels=[rooms]) as owner:
        yield People(owner.app, rooms)
