"""The network between machines and the servers of a store: a door before each port, and places that are cut off.

All of it is on loopback. A place is a server, a machine, or `elsewhere`. The caller at a door is known by the door, as
each machine has doors of its own, or else by the address of its connection. While two places are apart, nothing passes
between them and no connection ends, as on a network that lost a cable; data that was sent meanwhile arrives late. The
doors are open in a process of their own, so that no stall of a test closes them.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = "127.0.0.1"
"""Where all servers listen, and say that they are."""

ELSEWHERE: Final = "elsewhere"
"""The place of all that come from nowhere in particular."""

_READ: Final = 1 << 16
_ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Door:
    """Where a server is found: `host` and `port` lead to the port `upstream` of the server at a place.

    `caller` is the place of all that come to it; if empty, their address tells. With `translated` the server's word
    for `HERE` becomes `host`, as a router does that has one address on each side.
    """

    host: str
    port: int
    upstream: int
    place: str
    caller: str = ""
    translated: bool = False


@dataclass
class _Doors:
    """All doors. `sources` gives the place of each address, `apart` the places that one still reaches when cut off."""

    sources: Mapping[str, str]
    apart: Mapping[str, Sequence[str]] = field(default_factory=dict[str, list[str]])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _open: list[asyncio.Server] = field(default_factory=list[asyncio.Server])

    async def open(self, door: Door) -> None:
        """Open a door."""

        async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            caller = door.caller or self.sources.get(writer.get_extra_info("peername")[0], ELSEWHERE)
            with suppress(OSError):
                await self._pass(door, caller, reader, writer)
            writer.close()

        self._open.append(await asyncio.start_server(come, door.host, door.port))

    def part(self, apart: Mapping[str, Sequence[str]]) -> None:
        """Let these places be cut off, each but from some, and no others."""
        self.apart = apart
        self._changed.set()
        self._changed = asyncio.Event()

    async def _joined(self, one: str, other: str) -> None:
        """Wait until two places reach one another."""
        while any(here in self.apart and there not in self.apart[here] for here, there in ((one, other), (other, one))):
            await self._changed.wait()

    async def _pass(self, door: Door, caller: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until a side ends it."""
        await self._joined(caller, door.place)
        up_reader, up_writer = await asyncio.open_connection(HERE, door.upstream)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, *, back: bool) -> None:
            with suppress(OSError):
                while data := await source.read(_READ):
                    await self._joined(caller, door.place)
                    told = data.replace(HERE.encode(), door.host.encode()) if back and door.translated else data
                    target.write(told)
                    await target.drain()
                # The end of a connection is told by the network, too.
                await self._joined(caller, door.place)
            target.close()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pump(reader, up_writer, back=False))
            tasks.create_task(pump(up_reader, writer, back=True))


class Network:
    """The process that has the doors open."""

    def __init__(self, doors: Iterable[Door], sources: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.machines.network"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._tell({"doors": [asdict(one) for one in doors], "sources": dict(sources)})

    def part(self, apart: Mapping[str, Sequence[str]]) -> None:
        """Cut places off, each but from those that it still reaches; all other places reach one another again."""
        self._tell({place: list(reached) for place, reached in apart.items()})

    def close(self) -> None:
        """End all connections."""
        self._process.kill()
        self._process.communicate()

    def _tell(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("the network is gone")


@contextmanager
def network(doors: Iterable[Door], sources: Mapping[str, str]) -> Generator[Network]:
    """Open doors for a while; `sources` are the places of the addresses that servers connect from."""
    made = Network(doors, sources)
    try:
        yield made
    finally:
        made.close()


async def _serve() -> None:
    """Open the doors of the first line, and cut off the places of each further one, until input ends."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    first = json.loads(await orders.readline())
    doors = _Doors(first["sources"])
    for door in first["doors"]:
        await doors.open(Door(**door))
    _answered()
    while line := await orders.readline():
        doors.part(json.loads(line))
        _answered()


def _answered() -> None:
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve())
