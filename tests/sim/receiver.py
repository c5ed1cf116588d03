"""A server on loopback that receives webhooks and answers as a test says, also not at all."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

HANG = 0
"""Stands for an answer that never comes."""


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float = 0.0
    """When all of it had come, in seconds on the clock that nobody sets."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> dict[str, Any]:
        """The message, whoever signed it."""
        return json.loads(self.body)

    def verified(self, secret: str) -> dict[str, Any]:
        """Return the message. Raises WebhookVerificationError: this secret did not sign it, or long ago."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Receiver:
    """It answers with the statuses of `answers`, one each, and then with `usual`; `HANG` is no answer at all.

    `extra` are header lines of every answer that is no success. It takes `slow` seconds over each, and what came from
    who is gone by then does not count: it was not answered.
    """

    port: int = 0
    usual: int = 204
    answers: deque[int] = field(default_factory=deque[int])
    extra: tuple[str, ...] = ()
    slow: float = 0.0
    got: list[Received] = field(default_factory=list[Received])
    open: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.got]

    def told(self, kind: str = "") -> Iterator[dict[str, Any]]:
        """Yield the data of what was received, of one type if one is named."""
        return (one.told["data"] for one in self.got if not kind or one.told["type"] == kind)

    def seqs(self, sid: str = "") -> list[int]:
        """Return the numbers of the events that came, in their order, of a session or of all."""
        return [one["event"]["seq"] for one in self.told() if "event" in one and (not sid or one["session"] == sid)]

    async def have(self, count: int, seconds: float = 60) -> list[Received]:
        """Wait until so many requests came."""
        async with asyncio.timeout(seconds):
            while len(self.got) < count:
                self._news.clear()
                await self._news.wait()
        return self.got

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body, at = await reader.readexactly(int(headers["content-length"])), time.monotonic()
            if self.slow:
                await asyncio.sleep(self.slow)
                if reader.at_eof():
                    return
            self.got.append(Received(head[0].split(" ")[1], headers, body, at))
            self._news.set()
            status = self.answers.popleft() if self.answers else self.usual
            if status == HANG:
                await reader.read()
                return
            lines = [f"HTTP/1.1 {status} Answer", "Content-Length: 0", "Connection: close"]
            lines += self.extra if status >= 300 else ()
            writer.write("\r\n".join([*lines, "", ""]).encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def receiver() -> AsyncGenerator[Receiver]:
    """Run one on a port of its own."""
    here = Receiver()
    server = await asyncio.start_server(here.serve, "127.0.0.1", 0)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
