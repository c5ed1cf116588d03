"""A platform that no fault hits: it remembers every text that workers sent it, and may lose what it answers.

Workers reach it over a unix socket. A text is one line of JSON, and one line answers it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from channels.messages import Address, Outbound, Signal
from channels.port import AmbiguousSendError, Audience, ChannelError

ACCOUNT: Final = "console:owner"
"""Who writes and reads in every chat."""

_TAKEN: Final = b"ok\n"
_SECONDS: Final = 0.005
"""How long the platform takes to answer, so that faults come while a text is under way."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text that was shown in a chat at a moment of the loop's clock; `repeated` tells of the mark."""

    chat: str
    key: str
    text: str
    repeated: bool
    at: float


@dataclass
class Platform:
    """What was `shown`, which process is called what in the store, and how many answers are still to be lost."""

    path: Path
    shown: list[Shown] = field(default_factory=list[Shown])
    processes: dict[int, str] = field(default_factory=dict[int, str])
    lost: int = 0
    _to_lose: int = 0

    def lose_answer(self) -> None:
        """Show the next text and hang up in place of an answer."""
        self._to_lose += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one line."""
        with suppress(ConnectionError):
            line = await reader.readline()
            if line.endswith(b"\n"):
                await self._take(json.loads(line), writer)
        writer.close()

    async def _take(self, told: dict[str, str], writer: asyncio.StreamWriter) -> None:
        if "process" in told:
            self.processes[int(told["pid"])] = told["process"]
        else:
            now, repeated = asyncio.get_running_loop().time(), told["repeated"] == "yes"
            self.shown.append(Shown(told["chat"], told["key"], told["text"], repeated, now))
            await asyncio.sleep(_SECONDS)
            if self._to_lose:
                self._to_lose -= 1
                self.lost += 1
                return
        writer.write(_TAKEN)


@asynccontextmanager
async def platform(path: Path) -> AsyncGenerator[Platform]:
    """Open a platform at a path."""
    made = Platform(path)
    listening = await asyncio.start_unix_server(made.serve, str(path))
    try:
        yield made
    finally:
        listening.close()


class PlatformChannel:
    """The console of a worker in the storm: what it shows goes to the platform at a path."""

    name = "console"
    marks_repeats = True
    marks_untrusted = True
    previews = False

    def __init__(self, path: Path) -> None:
        self._path = path

    async def hello(self, pid: int, process: str) -> None:
        """Tell the platform what a process is called in the store."""
        await self._say({"pid": str(pid), "process": process})

    async def send(self, outbound: Outbound) -> str:
        """Show a text."""
        await self._say(
            {
                "chat": outbound.address.chat,
                "key": outbound.key,
                "text": outbound.text,
                "repeated": "yes" if outbound.repeated else "no",
            }
        )
        return ""

    async def preview(self, outbound: Outbound) -> None:
        """Show nothing of an answer that is being written."""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show no signs of work."""

    async def audience(self, address: Address) -> Audience:
        """Tell who reads: the owner, in every chat."""
        return Audience.of(ACCOUNT)

    async def _say(self, told: dict[str, str]) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
        except OSError:
            raise ChannelError("the platform does not listen") from None
        try:
            writer.write(json.dumps(told).encode() + b"\n")
            await writer.drain()
            if await reader.readline() != _TAKEN:
                raise AmbiguousSendError("the platform did not answer")
        except OSError:
            raise AmbiguousSendError("the platform hung up") from None
        finally:
            writer.close()
