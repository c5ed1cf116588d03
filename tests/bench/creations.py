"""Sessions that programs begin over HTTP: how many a second, with a few clients that ask for one after another.

Ten thousand are to be begun in a minute. The clients are in the process of the API and take their share of it; they
speak plain HTTP, each on a connection of its own. The store's server is beside them. Every session has a key and
metadata, as a program's has. The processor time of a session counts that of the clients too, and not the store's.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from bot.app import programs
from bot.app.app import App
from bot.app.opening import open_app
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from policy.labels import parse
from tests.bench.measure import Goal, Row, at_most
from tests.bench.rig import crowd_config, during
from tests.bot.api.kit import MAKER

SESSIONS: Final = 10_000
SECONDS: Final = 60.0
_CLIENTS: Final = 8
_WARM: Final = 200
_PER_MINUTE: Final = 1_000_000
_CREATED: Final = b"HTTP/1.1 201"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        taken, worked = asyncio.run(_measured(Path(folder)))
    yield Row("sessions_begun", SESSIONS / taken, "sessions/s", None, Goal("value", SESSIONS / SECONDS, at_least=True))
    yield Row("session_begun_cpu", worked / SESSIONS * 1e3, "ms", None, at_most(SECONDS / SESSIONS * 1e3))


async def _measured(folder: Path) -> tuple[float, float]:
    """Return the seconds in which all were begun, and the seconds that this process worked meanwhile."""
    api = {"port": 0, "requests_per_minute": _PER_MINUTE}
    config = crowd_config(folder, {"api": api}, [])
    async with open_app(config, [], {}) as app:
        await app.reloader.start(_silent)
        request = TokenRequest("bench", Scope.STEER, parse("PUBLIC~"), 0, 0)
        token = (await app.token_keeper.create(request, MAKER)).text
        began = asyncio.get_running_loop().create_future()
        async with during(programs.answer(app, began.set_result)):
            clients = _Clients(await began, token)
            await clients.begin(_WARM)
            start, worked = time.perf_counter(), time.process_time()
            await clients.begin(SESSIONS)
            taken = time.perf_counter() - start, time.process_time() - worked
            await _begun(app, SESSIONS + _WARM)
            return taken


async def _begun(app: App, many: int) -> None:
    """Raise RuntimeError: not as many sessions are there."""
    there = sum([1 async for _ in app.store.sessions.states()])
    if there != many:
        raise RuntimeError(f"{there} sessions were begun, and not {many}")


async def _silent(_line: str) -> None:
    pass


class _Clients:
    """A few clients of an API at a place, with a token."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname, place.port
        self._head = f"POST /v1/sessions HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: Bearer {token}\r\n"
        self._numbers = count()

    async def begin(self, many: int) -> None:
        """Begin as many sessions, each client one after another."""
        left = iter(range(many))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CLIENTS):
                tasks.create_task(self._client(left))

    async def _client(self, left: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        for _ in left:
            key = f"job-{next(self._numbers)}"
            body = json.dumps({"input": "Summarize the notes.", "key": key, "metadata": {"job": key}})
            head = f"{self._head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write((head + body).encode())
            await _answered(reader)
        writer.close()
        await writer.wait_closed()


async def _answered(reader: asyncio.StreamReader) -> None:
    """Read an answer. Raises RuntimeError: no session was begun."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0].partition(b":")[2]))
    if not head.startswith(_CREATED):
        raise RuntimeError(f"a session was not begun: {body.decode()}")
