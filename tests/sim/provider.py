"""A model provider on loopback: OpenAI's chat completions and responses, and Anthropic's messages, with faults.

Each request takes the next act that a test wrote, or else answers by quoting what it was sent. By hand,
`uv run poe sim-provider` serves on a port and takes its acts from the conversation: a message such as
`?cut` or `?429` is answered with that fault.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from tests.sim import anthropic, openai
from tests.sim.act import Act
from tests.sim.by_hand import Options, play

BY_HAND: Final = {
    "?429": Act(status=429, retry_after="1"),
    "?500": Act(status=500),
    "?529": Act(status=529),
    "?slow": Act(delay=5),
    "?hang": Act(hang=True),
    "?cut": Act(text="half of an answer that never comes", cut=2),
    "?broken": Act(broken=True),
    "?badcall": Act(calls=(("read_file", '{"path": '),)),
    "?native": Act(native=True),
    "?nousage": Act(usage=False),
    "?unknown": Act(status=404, code="model_not_found"),
    "?huge": Act(text="x" * 3_000_000),
    "?tool": Act(calls=(("read_file", '{"path": "public/welcome.md"}'),)),
}
HAND_PORT: Final = 8399


@dataclass
class Provider:
    """The server; `seen` keeps what was asked, in order."""

    acts: list[Act] = field(default_factory=list[Act])
    port: int = 0
    seen: list["Asked"] = field(default_factory=list["Asked"])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    @property
    def openai(self) -> str:
        """The address for `openai-chat:` and `openai:` models."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic(self) -> str:
        """The address for `anthropic:` models."""
        return f"http://127.0.0.1:{self.port}"

    def then(self, *acts: Act | str) -> "Provider":
        """Add acts; a text is an answer."""
        self.acts += [Act(text=act) if isinstance(act, str) else act for act in acts]
        return self

    def read(self) -> str:
        """Return everything this provider was ever sent."""
        return "\n".join(json.dumps(asked.body, ensure_ascii=False) for asked in self.seen)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.open.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except (IndexError, KeyError, TypeError, ValueError):
            # A stranger on the port, such as a browser: no request of any of these protocols.
            _refuse(writer, Act(status=400, text="no request of a model provider"))
        finally:
            await _closed(writer)
            self.open.discard(writer)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _asked(reader)
        if asked is None:
            return False
        self.seen.append(asked)
        act = self.acts.pop(0) if self.acts else _by_word(asked.body)
        if act.hang:
            await self.gone.wait()
            return False
        await asyncio.sleep(act.delay)
        if act.status != HTTPStatus.OK:
            _refuse(writer, act)
        elif asked.body.get("stream"):
            return await _stream(writer, asked, act)
        else:
            whole = asked.speaker.whole(asked.body, act)
            body = b"{not json" if act.broken else json.dumps(whole).encode()
            _head(writer, 200, "application/json", f"content-length: {len(body)}")
            writer.write(body)
        await writer.drain()
        return True


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def speaker(self) -> Any:  # noqa: ANN401 - a module or a class with `whole` and `pieces`
        """What speaks this request's protocol."""
        return anthropic if self.path.partition("?")[0].endswith("/messages") else openai.of(self.path)


async def _asked(reader: asyncio.StreamReader) -> Asked | None:
    line = (await reader.readline()).decode("latin-1").split()
    if not line:
        return None
    headers = dict[str, str]()
    while header := (await reader.readline()).decode("latin-1").strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(line[1], headers, json.loads(body or b"{}"))


def _head(writer: asyncio.StreamWriter, status: int, kind: str, *more: str) -> None:
    lines = (f"HTTP/1.1 {status} x", f"content-type: {kind}", *more)
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def _refuse(writer: asyncio.StreamWriter, act: Act) -> None:
    problem = {"type": act.code or "api_error", "code": act.code, "message": act.text or "no"}
    body = json.dumps({"type": "error", "error": problem}).encode()
    more = [f"retry-after: {act.retry_after}"] if act.retry_after else []
    more += [f"location: {act.location}"] if act.location else []
    _head(writer, act.status, "application/json", f"content-length: {len(body)}", *more)
    writer.write(body)


async def _stream(writer: asyncio.StreamWriter, asked: Asked, act: Act) -> bool:
    """Send the answer piece by piece; return whether the connection is still good."""
    _head(writer, 200, "text/event-stream", "transfer-encoding: chunked")
    for _ in range(100 if act.murmur else 0):
        writer.write(b"e\r\n: still here\n\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)
    async for piece in _cut(asked.speaker.pieces(asked.body, act), act):
        data = piece.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        await asyncio.sleep(act.pause)
    if act.cut is not None and not act.clean:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _cut(pieces: list[str], act: Act) -> AsyncIterator[str]:
    # The first piece or two open the answer, so that cutting after two leaves a part of it.
    for number, piece in enumerate(pieces):
        if act.cut is not None and number > act.cut:
            return
        yield "data: {not json\n\n" if act.broken and number else piece


def _by_word(body: dict[str, Any]) -> Act:
    said = _last_words(body.get("messages") or body.get("input") or "")
    act = BY_HAND.get(said.split()[0] if said.split() else "")
    return Act(text=f"the provider heard: {said[-200:]}") if act is None else act


def _last_words(messages: str | list[dict[str, Any]]) -> str:
    if isinstance(messages, str):
        return messages
    last: dict[str, Any] = messages[-1] if messages else {}
    content: str | list[dict[str, Any]] = last.get("content") or last.get("output") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or part.get("content") or "") for part in content)


@asynccontextmanager
async def provider(*acts: Act | str, port: int = 0) -> AsyncGenerator[Provider]:
    """Run a provider on a loopback port."""
    played = Provider().then(*acts)
    server = await asyncio.start_server(played.serve, "127.0.0.1", port, limit=2**24)
    played.port = server.sockets[0].getsockname()[1]
    try:
        yield played
    finally:
        played.gone.set()
        server.close()
        for writer in tuple(played.open):
            await _closed(writer)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def by_hand(port: int) -> None:
    """Serve until interrupted."""
    async with provider(port=port) as played:
        print(f"a provider plays on {played.openai} (openai-chat:, openai:) and {played.anthropic} (anthropic:)")
        print("put it into config.yaml as:")
        entry = json.dumps({"openai-chat:sim": {"base_url": played.openai}})
        print(f"  model: {{name: 'openai-chat:sim', providers: {entry}}}")
        print("  policy: {models: {'openai-chat:sim': {clearance: PUBLIC}}}")
        print(f"and say one of {' '.join(BY_HAND)}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    chosen = Options(__doc__, HAND_PORT).parse_args()
    play(by_hand(chosen.port), chosen.port)
