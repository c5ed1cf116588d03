"""A web server on loopback that does what a test says, also what no honest server would."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Web:
    """What it answers by path: bytes, or something that writes by itself. `asked` keeps every request as it came."""

    port: int = 0
    answers: dict[str, bytes | Play] = field(default_factory=dict[str, "bytes | Play"])
    asked: list[str] = field(default_factory=list[str])

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.asked]

    def page(self, path: str, body: str | bytes, kind: str = "text/plain; charset=utf-8", **headers: str) -> None:
        """Answer a path with a page."""
        self.answers[path] = page(body, kind, **headers)

    def leads(self, path: str, location: str, status: int = 302) -> None:
        """Answer a path with a redirect."""
        head = f"HTTP/1.1 {status} Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        self.answers[path] = head.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.asked.append(request)
            answer = self.answers.get(request.split(" ")[1].partition("?")[0], page("nothing", status="404 Not Found"))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def page(body: str | bytes, kind: str = "text/plain", *, status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer; a header's name is written with `_` for `-`."""
    raw = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(raw)}", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw


@asynccontextmanager
async def web() -> AsyncGenerator[Web]:
    """Run a server on a port of its own."""
    here = Web()
    server = await asyncio.start_server(here.serve, "127.0.0.1", 0)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
