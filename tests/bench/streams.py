"""Streams of events over real HTTP, from an API process of its own, to readers that count on plain sockets.

The first event is told from the request on that begins its session. The reference shows how fast the machine is: an
answer that needs nothing. For the cost of a reader a worker's write is told to 500 of them: CPU is that of the API
process, which reads each event once, and time goes from the write to each reader. The reference of CPU is a process
that only writes to 500 sockets. Memory is what the API process holds more with 500 streams open than before.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from bot.app.app import App
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.tools import catalogue
from policy.labels import parse
from tests.bench.measure import Row, at_most
from tests.bot.api.crew import Crew
from tests.bot.api.kit import MAKER, api_config
from tests.bot.api.listening import Scribe, said
from tests.journeys.machine import Machine

_READERS: Final = 500
_EVENTS: Final = 60
_WARM: Final = 10
_FIRST: Final = 60
_TICK: Final = 1e6 / os.sysconf("SC_CLK_TCK")
_SIZE: Final = 400
"""Bytes of an event for a bare reader, as large as one of a stream."""

_TIMES: Final = 10
"""How often a bare process writes for each event, as its CPU is told in hundredths of a second."""

_BARE: Final = f"""
import asyncio, sys
async def main():
    writers = []
    def reached(_, writer):
        writers.append(writer)
        if len(writers) == {_READERS}:
            print(flush=True)
    server = await asyncio.start_server(reached, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        for _ in range({_TIMES}):
            for writer in writers:
                writer.write(b"x" * {_SIZE})
asyncio.run(main())
"""


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        first = asyncio.run(_first(Path(folder)))
    yield Row("program_first_event", first[0] * 1e3, "ms", first[1] * 1e3, at_most(25, machine=3))
    with TemporaryDirectory(prefix="lgb") as folder:
        found = asyncio.run(_told(Path(folder)))
    yield Row("stream_reader_cpu", found.cpu, "µs", found.bare_cpu, at_most(40, machine=4))
    yield Row("stream_p50", found.p50 * 1e3, "ms", found.asked * 1e3, at_most(50))
    yield Row("stream_memory_500", found.megabytes, "MB", None, at_most(64))


@dataclass(frozen=True)
class _Served:
    """An API process, an application beside it on the same store, and a token."""

    app: App
    crew: Crew
    name: str
    token: str

    @property
    def pid(self) -> int:
        return self.crew.running[self.name].pid

    async def connect(self) -> "_Line":
        parts = urlsplit(self.crew.urls[self.name])
        return _Line(*await asyncio.open_connection(parts.hostname, parts.port), self.token)


@asynccontextmanager
async def _served(folder: Path, name: str) -> AsyncGenerator[_Served]:
    limits = {"requests_per_minute": 1_000_000, "heartbeat_seconds": 600}
    (folder / "config.yaml").write_text(api_config(settings=limits))
    place = {"LOCKGATE_DATA_DIR": str(folder / "data")}
    config = load_config(folder / "config.yaml", place, catalogue.NAMES)
    async with open_app(config, [], {}) as app:
        made = await app.token_keeper.create(TokenRequest("ci", Scope.ADMIN, parse("RESTRICTED~"), 0, 1_000_000), MAKER)
        crew = Crew(Machine(folder, fresh=True), place)
        try:
            await crew.start(name)
            yield _Served(app, crew, name, made.text)
        finally:
            await crew.end()


@dataclass
class _Line:
    """A connection that a program keeps."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str

    def ask(self, method: str, path: str, body: bytes = b"", accept: str = "*/*") -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {self.token}\r\naccept: {accept}\r\n"
        kind = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{head}{kind}\r\n".encode() + body)

    async def answer(self) -> bytes:
        """Return the body of an answer with a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        return await self.reader.readexactly(int(length))

    async def asked(self) -> float:
        """Return how many seconds an answer takes that needs nothing."""
        begin = time.perf_counter()
        self.ask("GET", "/v1/whoami")
        await self.answer()
        return time.perf_counter() - begin

    async def told(self, word: bytes = b"\ndata: ") -> None:
        """Wait for an event."""
        await self.reader.readuntil(word)

    def close(self) -> None:
        self.writer.close()


async def _first(folder: Path) -> tuple[float, float]:
    """Return how many seconds the first event of a new session takes, and an answer that needs nothing."""
    async with _served(folder, "all") as served, AsyncExitStack() as until:
        asking = await served.connect()
        until.callback(asking.close)
        taken, bare = list[float](), list[float]()
        for number in range(_WARM + _FIRST):
            listening = await served.connect()
            bare.append(await asking.asked())
            body = json.dumps({"input": f"hello {number}"}).encode()
            begin = time.perf_counter()
            asking.ask("POST", "/v1/sessions", body)
            sid = json.loads(await asking.answer())["id"]
            listening.ask("GET", f"/v1/sessions/{sid}/events", accept="text/event-stream")
            await listening.told()
            taken.append(time.perf_counter() - begin)
            listening.close()
        return median(taken[_WARM:]), median(bare[_WARM:])


@dataclass(frozen=True)
class _Found:
    """What a reader costs: CPU in µs for each event, seconds until it is told, and MB for all of them.

    `bare_cpu` is the CPU of a process that only writes. `asked` is how many seconds an answer takes that needs nothing.
    """

    cpu: float
    bare_cpu: float
    p50: float
    asked: float
    megabytes: float


@dataclass
class _Heard:
    """When each reader was told each event."""

    moments: list[float] = field(default_factory=list[float])
    all: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, line: _Line, begun: asyncio.Semaphore) -> None:
        await line.told(b"\n\n")
        begun.release()
        while True:
            await line.told()
            self.moments.append(time.perf_counter())
            if len(self.moments) == _READERS:
                self.all.set()


async def _told(folder: Path) -> _Found:
    async with _served(folder, "api") as served:
        scribe = await Scribe.begun(served.app.store)
        before, heard, begun = _resident(served.pid), _Heard(), asyncio.Semaphore(0)
        lines = [await served.connect() for _ in range(_READERS)]
        tasks = list[asyncio.Task[None]]()
        for line in lines:
            line.ask("GET", f"/v1/sessions/{scribe.sid}/events", accept="text/event-stream")
            tasks.append(asyncio.create_task(heard.listen(line, begun)))
            await begun.acquire()
        megabytes, waits, spent = _resident(served.pid) - before, list[float](), 0.0
        asking = await served.connect()
        bare = [await asking.asked() for _ in range(_EVENTS)]
        for number in range(_WARM + _EVENTS):
            heard.moments.clear()
            heard.all.clear()
            used, begin = _cpu(served.pid), time.perf_counter()
            await scribe.write(said(f"event {number}"))
            await heard.all.wait()
            if number >= _WARM:
                spent += _cpu(served.pid) - used
                waits += [moment - begin for moment in heard.moments]
        for task in tasks:
            task.cancel()
        for line in (*lines, asking):
            line.close()
        events = _EVENTS * _READERS
        return _Found(spent / events, await _bare_cpu() / events, median(waits), median(bare), megabytes)


async def _bare_cpu() -> float:
    """Return how much CPU a process uses that writes as many events of the same size to as many sockets, in µs."""
    bare = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BARE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert bare.stdin is not None
    assert bare.stdout is not None
    try:
        port = int(await bare.stdout.readline())
        readers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_READERS)]
        await bare.stdout.readline()
        spent = 0.0
        for number in range(_WARM + _EVENTS):
            used = _cpu(bare.pid)
            bare.stdin.write(b"\n")
            for reader, _ in readers:
                await reader.readexactly(_SIZE * _TIMES)
            if number >= _WARM:
                spent += _cpu(bare.pid) - used
        for _, writer in readers:
            writer.close()
        return spent / _TIMES
    finally:
        bare.kill()
        await bare.wait()


def _cpu(pid: int) -> float:
    """Return how much CPU a process has used, in µs."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def _resident(pid: int) -> float:
    """Return how much memory a process holds, in MB."""
    (found,) = [line for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines() if line[:6] == "VmRSS:"]
    return int(found.split()[1]) / 1000
