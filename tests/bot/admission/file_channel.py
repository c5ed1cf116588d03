"""A channel whose messages bring files, and people who send them."""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from bot.app.app import App
from bot.app.extensions import Extensions
from bot.files import locations
from bot.files.locations import FileLocation
from bot.files.port import AbsentError
from bot.sessions.log.event_types import MessageFile, UserMessage
from bot.sessions.log.events import Event
from channels.messages import Address, Attachment, Inbound, Outbound, Signal
from channels.port import Audience, ChannelError, LargeFileError
from tests.bot.kit import policy
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

HOUSE = Address("post", "ann")
SQUARE = Address("post", "square")
PEOPLE = {
    "owner": principal("console:owner"),
    "ann": principal("post:ann", role="member", clearance="CONFIDENTIAL"),
    "eve": principal("post:eve", role="guest", clearance="PUBLIC"),
}
CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "post": {"classification": "CONFIDENTIAL", "inbound": "PUBLIC", "overshoot": "allow"},
}
PNG = b"\x89PNG\r\n\x1a\n and a picture"
OGG = b"OggS\x00\x02 and what is said"


@dataclass
class FileChannel:
    """Implements the ports `Channel` and `FileSource`; `asked` are the handles it was asked for.

    `delay` is how long fetching takes, in seconds.
    """

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    name: str = "post"
    marks_repeats: bool = False
    marks_untrusted: bool = True
    previews: bool = False
    said: list[Outbound] = field(default_factory=list[Outbound])
    asked: list[str] = field(default_factory=list[str])
    delay: float = 0.0

    async def send(self, outbound: Outbound) -> str:
        self.said.append(outbound)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing before it is finished."""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show nothing."""

    async def audience(self, address: Address) -> Audience:
        shared = address.chat == SQUARE.chat
        return Audience.of("post:ann", "post:eve", shared=True) if shared else Audience.of(f"post:{address.chat}")

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        self.asked.append(attachment.handle)
        await asyncio.sleep(self.delay)
        content = self.files.get(attachment.handle)
        if content is None:
            raise ChannelError("it is gone")
        if len(content) > most:
            raise LargeFileError(most)
        return content


@dataclass
class Sender:
    """Ann, who sends files from her house."""

    app: App
    channel: FileChannel
    sent: int = 0

    @property
    def sid(self) -> str:
        return self.app.session_id(HOUSE)

    async def sends(self, *files: tuple[str, bytes], text: str = "", **described: object) -> list[str]:
        """Send files with a text, and return what was said to her meanwhile."""
        attached = [self.attachment(name, content, **described) for name, content in files]
        return await self.says(text, *attached)

    def attachment(self, name: str, content: bytes, **described: object) -> Attachment:
        self.sent += 1
        handle = f"h{self.sent}"
        self.channel.files[handle] = content
        return Attachment(handle, name, **described)  # pyright: ignore[reportArgumentType] - as a test has it

    async def says(self, text: str, *files: Attachment, wait: bool = True) -> list[str]:
        """Say something and return what was said to her meanwhile."""
        before = len(self.channel.said)
        self.sent += 1
        inbound = Inbound(HOUSE, "post:ann", text, f"n{self.sent}", files=tuple(files))
        await self.app.router.receive(inbound)
        if wait:
            await self.settled()
        return [outbound.text for outbound in self.channel.said[before:]]

    async def settled(self) -> None:
        await Person(self.app, io.StringIO(), HOUSE, "post:ann").settled()

    async def events(self) -> tuple[Event, ...]:
        return await self.app.store.sessions.events(self.sid, limit=1000)

    async def files(self) -> list[MessageFile]:
        """Return what the log says of files, oldest first."""
        return [file for message in bodies(await self.events(), UserMessage) for file in message.files]

    async def place(self, path: str) -> FileLocation:
        """Return where a path of the session's workspace is."""
        state = await self.app.store.sessions.state(self.sid)
        assert state is not None
        return locations.workspace(self.sid, state.generation, *path.split("/")[1:])

    async def kept(self, path: str) -> bytes:
        """Return what is kept at a path of the session's workspace.

        Raises AbsentError: nothing is.
        """
        found = await asyncio.to_thread(self.app.files.find, await self.place(path), self.app.config.policy.top)
        if found is None:
            raise AbsentError
        return await asyncio.to_thread(self.app.files.load, found.place, 100_000_000)


def configured(blocks: Mapping[str, object] = MappingProxyType({}), **sections: object) -> str:
    """Return a configuration with a channel that brings files."""
    return policy(**{"principals": PEOPLE, "channels": CHANNELS, "blocks": dict(blocks), **sections})


@asynccontextmanager
async def sending(
    folder: Path,
    config: str = "",
    *,
    parts: Extensions | None = None,
    serve: bool = True,
    channel: FileChannel | None = None,
) -> AsyncGenerator[Sender]:
    """Open an application with such a channel, its worker running unless told otherwise."""
    made = channel or FileChannel()
    async with running(folder, config or configured(), parts=parts, serve=serve, channels=[made]) as person:
        yield Sender(person.app, made)
