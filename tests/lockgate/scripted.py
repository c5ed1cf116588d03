"""A server that answers requests by a script, faults included, and notes what it was asked: no API answers so."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

CUT = b""
"""In the place of an answer: the connection is closed without one."""


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Scripted:
    """Answers one request a connection with the next raw answer; the last one stands for all after it."""

    answers: Sequence[bytes]
    asked: list[Asked] = field(default_factory=list[Asked])
    url: str = ""
    slow: float = 0.0
    """For how many seconds a connection stands after its answer."""
    _open: int = 0
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            await self.serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self._open -= 1

    async def end(self) -> None:
        """Let no connection stand any more."""
        self._over.set()
        while self._open:  # noqa: ASYNC110 - connections tell nobody that they ended
            await asyncio.sleep(0.01)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ")
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(Asked(method, path, headers, body))
        writer.write(answer)
        await writer.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self.slow)


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncGenerator[Scripted]:
    script = Scripted(answers)
    server = await asyncio.start_server(script.connected, "127.0.0.1", 0)
    async with server:
        script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield script
        finally:
            await script.end()


def answer(status: int, body: object = None, *, plain: str | None = None, **headers: str) -> bytes:
    """Return a whole answer; `Retry_After` among the headers is `Retry-After`."""
    content = (plain if plain is not None else json.dumps(body)).encode()
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return (
        "\r\n".join(
            [f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", "Connection: close", *lines, "", ""]
        ).encode()
        + content
    )


def refusal(status: int, code: str, **headers: str) -> bytes:
    """Return an answer of the API that refuses."""
    problem = {"code": code, "message": "No.", "next_step": "Ask for less."}
    return answer(status, {"error": problem, "request_id": "req-1"}, plain=None, **headers)


def stream(*frames: str) -> bytes:
    """Return a stream of these frames, which then breaks off."""
    text = "".join(frames)
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{text}".encode()


def event(seq: int) -> str:
    """Return the frame of an event."""
    told = {"id": f"s:{seq}", "seq": seq, "ts": 1, "actor": "a", "type": "user.message", "level": "user"}
    return f"id: {seq}\ndata: {json.dumps({**told, 'label': 'PUBLIC', 'body': {}, 'refs': []})}\n\n"


def end(reason: str) -> str:
    """Return the frame that closes a stream."""
    return f"event: end\ndata: {json.dumps({'reason': reason})}\n\n"
