"""A tap on the line between a worker and its store: kills the worker at one chosen request.

The line is a unix socket in front of the store's. What a request was for is told by bytes that stand in it, such as
the digest of its script; without such bytes every request counts.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.store.world import kill, lives


@dataclass(frozen=True)
class Trap:
    """An instant: request number `nth` (from 1) that has `word` in it.

    `done` says that the store does what was asked and the worker dies before it hears so; else the request is lost.
    """

    word: bytes = b""
    nth: int = 1
    done: bool = True


@dataclass
class Tap:
    """Where workers reach the store; `victim` is the process id of the worker that lives."""

    path: Path
    upstream: Path
    victim: int = 0
    sprung: asyncio.Event = field(default_factory=asyncio.Event)
    _trap: Trap | None = None
    _seen: int = 0

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def arm(self, trap: Trap) -> None:
        """Wait for an instant."""
        self._trap, self._seen = trap, 0
        self.sprung.clear()

    def disarm(self) -> bool:
        """Wait for nothing any more; say whether the instant came, though the worker may still be dying of it."""
        came, self._trap = self._trap is None, None
        return came

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, until the worker or the tap ends it."""
        up_reader, up_writer = await asyncio.open_unix_connection(str(self.upstream))
        answered = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                replies = group.create_task(_replies(up_reader, writer, answered))
                with suppress(ConnectionError):
                    await self._requests(reader, up_writer, answered)
                replies.cancel()
        finally:
            up_writer.close()
            writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, answered: asyncio.Event
    ) -> None:
        """Pass requests on up to the one of the trap."""
        while data := await reader.read(1 << 20):
            trap = self._hit(data)
            if trap is None:
                upstream.write(data)
                continue
            # Dead first, it can hear nothing more and do nothing more.
            await killed(self.victim)
            if trap.done:
                answered.clear()
                upstream.write(data)
                await answered.wait()
            self.sprung.set()
            return

    def _hit(self, data: bytes) -> Trap | None:
        if self._trap is None or self._trap.word not in data:
            return None
        self._seen += 1
        if self._seen < self._trap.nth:
            return None
        trap, self._trap = self._trap, None
        return trap


async def killed(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    kill(pid)
    async with asyncio.timeout(10):
        while lives(pid):  # noqa: ASYNC110 - nobody tells of a process that is not our own child
            await asyncio.sleep(0.001)


async def _replies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event) -> None:
    """Pass replies on; `answered` is set by each. A dead worker hears none."""
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            answered.set()
            writer.write(data)


@asynccontextmanager
async def tapped(path: Path, upstream: Path) -> AsyncGenerator[Tap]:
    """Open a tap at a path in front of a store's socket."""
    tap = Tap(path, upstream)
    listening = await asyncio.start_unix_server(tap.serve, str(path))
    try:
        yield tap
    finally:
        listening.close()
