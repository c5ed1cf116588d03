"""A proxy between a process and its store that cuts their connections at requests that run a script.

What is cut is a reply, after the server did what it was asked, or a request; whole or in the middle.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

_SCRIPT: Final = b"EVALSHA"
_READ: Final = 1 << 20


class Cut(StrEnum):
    """What is lost of an exchange before the connection ends."""

    REQUEST = "request"
    HALF_REQUEST = "half_request"
    HALF_REPLY = "half_reply"
    REPLY = "reply"


@dataclass
class FaultProxy:
    """Listens at `path` in front of the store's socket; `done` counts the cuts that were made.

    While it is `silent` nothing passes, and nobody is told.
    """

    path: Path
    upstream: Path
    done: Counter[Cut] = field(default_factory=Counter[Cut])
    silent: bool = False
    _armed: deque[Cut] = field(default_factory=deque[Cut])
    _lines: "set[_Line]" = field(default_factory=set["_Line"])

    @property
    def url(self) -> str:
        """The address of the store through this proxy."""
        return f"unix://{self.path}"

    def arm(self, cut: Cut) -> None:
        """Cut the next exchange with a script; cuts that are armed already come first."""
        self._armed.append(cut)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, until a side ends it or it is cut."""
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(str(self.upstream))
        except OSError:
            writer.close()
            return
        line = _Line(self, reader, writer, up_reader, up_writer)
        self._lines.add(line)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(line.replies())
                tasks.create_task(line.requests())
        finally:
            line.end()
            self._lines.remove(line)

    async def close(self) -> None:
        """Hang up on all who are connected still."""
        while self._lines:
            for line in self._lines:
                line.end()
            await asyncio.sleep(0.001)

    def cut(self, data: bytes) -> Cut | None:
        """Return what to cut of the exchange that a request begins, None for nothing."""
        if not self._armed or _SCRIPT not in data:
            return None
        cut = self._armed.popleft()
        self.done[cut] += 1
        return cut


class _Line:
    """One connection; `_doomed` is what is to be cut of the reply that comes next."""

    def __init__(
        self,
        proxy: FaultProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._up_reader = up_reader
        self._up_writer = up_writer
        self._doomed: Cut | None = None

    async def requests(self) -> None:
        """Pass requests on up to one that is cut."""
        with suppress(OSError):
            while data := await self._reader.read(_READ):
                if self._proxy.silent:
                    continue
                match self._proxy.cut(data):
                    case Cut.REQUEST:
                        break
                    case Cut.HALF_REQUEST:
                        self._up_writer.write(data[: len(data) // 2])
                        await self._up_writer.drain()
                        break
                    case doomed:
                        self._doomed = doomed
                        self._up_writer.write(data)
        if self._doomed is None:
            self.end()

    async def replies(self) -> None:
        """Pass replies on up to one that is cut."""
        with suppress(OSError):
            while data := await self._up_reader.read(_READ):
                if self._doomed is Cut.HALF_REPLY:
                    self._writer.write(data[: len(data) // 2])
                if self._doomed is not None:
                    break
                self._writer.write(data)
        self.end()

    def end(self) -> None:
        """Hang up on both sides."""
        self._writer.close()
        self._up_writer.close()


@asynccontextmanager
async def fault_proxy(path: Path, upstream: Path) -> AsyncGenerator[FaultProxy]:
    """Open a proxy at a path in front of a store's socket."""
    proxy = FaultProxy(path, upstream)
    listening = await asyncio.start_unix_server(proxy.serve, str(path))
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
