"""Round trips of a message, counted between the running application and its server.

A proxy on a socket of its own passes the bytes on and counts: a round trip begins with the first byte that a client
sends after the server's last. Not counted are the worker's standing wait for a wake-up, which is answered once for a
message, the sweep, the look for timers that are due and the lease's renewal, whose number depends on time and not on
messages, and what a new connection says about itself.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from bot.store.scripts.loader import load_scripts
from bot.store.servers.embedded_server import Supervisor
from tests.bench.measure import Row, at_most
from tests.bench.rig import LEARN, READ, Bench, bench

Trips: TypeAlias = dict[str, float]
"""How many round trips of each kind a message has."""

_MESSAGES: Final = 20
_WARM: Final = 3
_QUIET: Final = 0.05
_CHUNK: Final = 1 << 16
_APART: Final = frozenset(
    {
        "BZMPOP",
        "SSCAN",
        "SCAN",
        "SREM",
        "SADD",
        "HMGET",
        "SMEMBERS",
        "SCRIPT",
        "probe",
        "renew",
        "take_due",
        "INFO",
        "HELLO",
        "AUTH",
        "CLIENT",
    }
)
_BESIDE: Final = frozenset({"SSCAN", "SCAN", "swap", "EVAL", "GET"})
"""What a sweep asks, and a process that tells its settings or looks for new keys; nothing that answers a message."""
_WATCHED: Final = frozenset({"HGETALL"})
"""What the benchmark itself asks to see whether a message is settled."""


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        plain, called, learned = asyncio.run(_measured(Path(folder)))
    yield Row("round_trips_no_tools", sum(plain.values()), "round trips", None, at_most(4 + 1))
    yield Row("round_trips_two_calls", sum(called.values()), "round trips", None, at_most(4 + 2 * 2 + 1))
    # Beside those that any message with a call has.
    more = sum(count for name, count in learned.items() if name not in called)
    yield Row("round_trips_to_learn", more, "round trips", None, at_most(2))


async def _measured(folder: Path) -> tuple[Trips, Trips, Trips]:
    supervisor = Supervisor(folder / "server")
    await supervisor.attach()
    path = folder / "proxy"
    proxy = _Proxy(supervisor.files.socket, {text.digest: script.value for script, text in load_scripts().items()})
    try:
        async with proxy.serving(path), bench(folder, f"unix://{path}") as lockgate:
            plain, called = await _count(lockgate, proxy, "hello"), await _count(lockgate, proxy, READ)
            return plain, called, await _count(lockgate, proxy, LEARN)
    finally:
        await supervisor.detach()


async def _count(lockgate: Bench, proxy: "_Proxy", text: str) -> Trips:
    """Return the round trips of one message, by their first command; they are listed on standard error.

    A message does not count in whose time a sweep falls, which may give hints of what is being done already, or the
    moment at which a process tells its settings.
    """
    for _ in range(_WARM):
        await lockgate.ask(text, text)
    await asyncio.sleep(_QUIET)
    trips, messages = Counter[str](), 0
    while messages < _MESSAGES:
        proxy.trips.clear()
        await lockgate.ask(text, text)
        await asyncio.sleep(_QUIET)
        if not proxy.trips.keys() & _BESIDE:
            trips.update(proxy.trips)
            messages += 1
    counted = {name: count / _MESSAGES for name, count in trips.items() if name not in _APART | _WATCHED}
    listed = ", ".join(f"{name} {count:g}" for name, count in counted.items())
    print(f"round trips of `{text}`: {listed}", file=sys.stderr)
    return counted


@dataclass
class _Proxy:
    """Passes on what goes between clients and a server, and counts round trips by their first command."""

    server: Path
    scripts: dict[str, str]
    trips: Counter[str] = field(default_factory=Counter[str])

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncGenerator[None]:
        listening = await asyncio.start_unix_server(self._client, path)
        try:
            yield
        finally:
            listening.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self.server)
        answered = True

        async def there() -> None:
            nonlocal answered
            with suppress(ConnectionError):  # either side may leave at any moment
                while data := await reader.read(_CHUNK):
                    if answered:
                        self.trips[self._name(data)] += 1
                    answered = False
                    to_server.write(data)
                    await to_server.drain()
            to_server.close()

        async def back() -> None:
            nonlocal answered
            with suppress(ConnectionError):
                while data := await from_server.read(_CHUNK):
                    answered = True
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(there())
            tasks.create_task(back())

    def _name(self, data: bytes) -> str:
        """Return the first command's name, a script's for one that is called by its digest."""
        name, *more = (word.decode("ascii", "replace") for word in data.split(b"\r\n", 5)[2:5:2])
        return self.scripts.get(more[0], more[0]) if name == "EVALSHA" else name
