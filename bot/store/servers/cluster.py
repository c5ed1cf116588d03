"""A store that is a Cluster: the server of each slot, and requests to several servers at once.

Each node is a `Server` like any other; the library brings connections, the hash of a key and the content of
redirections. Its client for a Cluster is not used: its pipeline fails where a pool is empty instead of waiting, and
sends redirected commands one by one. It also closes the connections of all nodes, including waiting requests, when one
of them fails.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, cast

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, ResponseError

from bot.store.servers.address import Endpoint
from bot.store.servers.connection import UNREACHED, Command, Part, Reply, RetryLimit, settled
from bot.store.servers.server import Server, single_pool

_HOPS: Final = 4
"""How often a command may be redirected before its request counts as failed."""


_KEYLESS: Final = frozenset({"CLIENT", "INFO", "PING", "SCRIPT", "TIME"})
"""Commands for the server and not for a key: they go where the keys of the same request are."""


_KEY_AT: Final = MappingProxyType({"EVAL": 3, "EVALSHA": 3, "BZMPOP": 3})
"""The place of the first key of a command if it is not its first argument."""


_TOPOLOGY: Final = ("CLUSTER", "SLOTS")


@dataclass(frozen=True, slots=True)
class _Topology:
    """The server of each slot, by slot, the first slot of each server, and the replicas."""

    owners: list[Endpoint] = field(default_factory=list[Endpoint])
    first: dict[Endpoint, int] = field(default_factory=dict[Endpoint, int])
    replicas: set[Endpoint] = field(default_factory=set[Endpoint])


@dataclass(slots=True)
class _Errand:
    """A command on its way: its place in the request, its slot, and its next server."""

    place: int
    slot: int
    to: Endpoint
    asking: bool = False


class Cluster:
    """The primaries of a Cluster. Implements `StoreServers`."""

    def __init__(self, seeds: Sequence[Endpoint], options: Mapping[str, Any], limit: RetryLimit) -> None:
        """Take addresses of some nodes, and options of connections, as from `connecting`; nothing is connected yet."""
        self.limit = limit
        self.ordered = False
        self._seeds = tuple(seeds)
        self._options = options
        self._servers = dict[Endpoint, Server]()
        self._topology = _Topology()
        self._reading = asyncio.Lock()
        self._tries = 0
        self._failed: Exception | None = None
        self._turn = 0

    async def exchange(self, commands: Sequence[Command], *, held: bool = False) -> list[Reply]:
        """Send commands, those of each server in one round trip, to all at the same time.

        Commands for one slot are done in their order, those for others in any.
        """
        if not self._topology.owners:
            await self._read_topology()
        replies: list[Reply] = [None] * len(commands)
        errands = [_Errand(place, slot, self._topology.owners[slot]) for place, slot in enumerate(_slots(commands))]
        for _ in range(_HOPS):
            await self._run(errands, commands, replies, held=held)
            errands = await self._redirected(errands, replies)
            if not errands:
                break
        return settled(replies)

    async def parts(self) -> Sequence[Part]:
        """Return the primaries, by their first slots."""
        if not self._topology.owners:
            await self._read_topology()
        topology = self._topology
        owners = sorted(topology.first.items(), key=lambda one: one[1])
        return [
            Part(self._server(to), first, f"{to[0]}:{to[1]}", lambda key, to=to: topology.owners[_slot(key)] == to)
            for to, first in owners
        ]

    async def nodes(self) -> Sequence[Part]:
        """Return the primaries, and then their replicas: also one that came back since the slots were read."""
        await self.restore()
        primaries = await self.parts()
        replicas = sorted(self._topology.replicas)
        return [*primaries, *(Part(self._server(to), name=f"{to[0]}:{to[1]}") for to in replicas)]

    async def restore(self) -> None:
        """Read which server has which slot now."""
        with suppress(*UNREACHED, ResponseError):
            await self._read_topology()

    async def close(self) -> None:
        """Close all connections."""
        for server in list(self._servers.values()):
            await server.close()

    def _server(self, endpoint: Endpoint) -> Server:
        server = self._servers.get(endpoint)
        if server is None:
            options = {**self._options, "host": endpoint[0], "port": endpoint[1]}
            server = self._servers[endpoint] = Server(single_pool(options))
        return server

    async def _run(
        self, errands: Sequence[_Errand], commands: Sequence[Command], replies: list[Reply], *, held: bool
    ) -> None:
        """Send commands to their servers, and put the replies in their places.

        Raises the library's error where a server does not answer, once all the others have answered.
        """
        by_server = dict[Endpoint, list[_Errand]]()
        for errand in errands:
            by_server.setdefault(errand.to, []).append(errand)
        failed = list[BaseException]()

        async def visit(endpoint: Endpoint, ours: Sequence[_Errand]) -> None:
            packed = [part for one in ours for part in _sent(one, commands[one.place])]
            try:
                answers = iter(await self._server(endpoint).exchange(packed, held=held))
            except UNREACHED as error:
                failed.append(error)
                return
            for one in ours:
                if one.asking:
                    next(answers)
                replies[one.place] = next(answers)

        if len(by_server) == 1:
            await visit(*next(iter(by_server.items())))
        else:
            async with asyncio.TaskGroup() as together:
                for endpoint, ours in by_server.items():
                    together.create_task(visit(endpoint, ours))
        if failed:
            raise failed[0]

    async def _redirected(self, errands: Sequence[_Errand], replies: Sequence[Reply]) -> list[_Errand]:
        """Return the commands to send again elsewhere: all commands for a slot of which one was redirected."""
        moved, asked = dict[int, Endpoint](), dict[int, Endpoint]()
        for errand in errands:
            reply = replies[errand.place]
            if isinstance(reply, AskError):
                # A node that does not know its own address leaves the host out: it is the one that was asked.
                to = cast("str", reply.host) or errand.to[0], reply.port
                (moved if isinstance(reply, MovedError) else asked)[errand.slot] = to
        if moved:
            # Where one slot moved others may have: that costs one request now and not one for each.
            await self.restore()
            for slot, to in moved.items():
                self._topology.owners[slot] = to
        found = asked | moved
        return [
            _Errand(one.place, one.slot, found[one.slot], asking=one.slot not in moved)
            for one in errands
            if one.slot in found
        ]

    async def _read_topology(self) -> None:
        """Ask a node for the server of each slot.

        Raises the library's error where no node answers, and ResponseError where the one that does refuses.
        """
        tries = self._tries
        async with self._reading:
            # A caller that waited for another try uses its result.
            if self._tries == tries:
                self._failed = await self._ask_around()
                self._tries += 1
            if self._failed is not None:
                raise self._failed

    async def _ask_around(self) -> Exception | None:
        """Ask one node after another until one answers; return the last error if none does."""
        failed: Exception = ClusterDownError("the cluster serves no slots")
        for endpoint in self._sources():
            try:
                async with asyncio.timeout(self.limit.each / 4):
                    (reply,) = await self._server(endpoint).exchange((_TOPOLOGY,))
            except UNREACHED as error:
                failed = error
                continue
            if isinstance(reply, ResponseError):
                return reply
            if reply:
                await self._take_over(reply, endpoint)
                return None
        return failed

    async def _take_over(self, slots: Sequence[Reply], asked: Endpoint) -> None:
        """Keep the topology that a node reported, and drop the servers that it does not name."""
        # Each node reports a slot that no node serves.
        topology = _Topology([asked] * REDIS_CLUSTER_HASH_SLOTS)
        for first, last, *nodes in slots:
            primary, *others = [(host.decode() if host else asked[0], int(port)) for host, port, *_ in nodes]
            topology.owners[first : last + 1] = [primary] * (last + 1 - first)
            topology.first[primary] = min(first, topology.first.get(primary, first))
            topology.replicas.update(others)
        self._topology = topology
        for endpoint in self._servers.keys() - topology.first.keys() - topology.replicas:
            await self._servers.pop(endpoint).retire()

    def _sources(self) -> Iterator[Endpoint]:
        """Yield the nodes to ask, another one first each time: the known ones, then those of the address."""
        known = list(dict.fromkeys([*self._topology.first, *self._servers]))
        self._turn += 1
        turn = self._turn % len(known) if known else 0
        yield from dict.fromkeys([*known[turn:], *known[:turn], *self._seeds])


def _sent(errand: _Errand, command: Command) -> Sequence[Command]:
    return (("ASKING",), command) if errand.asking else (command,)


def _slots(commands: Sequence[Command]) -> list[int]:
    """Return the slot of each command; one without a key takes that of the first one with a key."""
    own = [None if (key := _key(command)) is None else _slot(key) for command in commands]
    common = next((slot for slot in own if slot is not None), 0)
    return [common if slot is None else slot for slot in own]


def _key(command: Command) -> bytes | str | int | None:
    name = str(command[0])
    return None if name in _KEYLESS else command[_KEY_AT.get(name, 1)]


def _slot(key: bytes | str | int) -> int:
    return cast("Callable[[bytes], int]", key_slot)(key if isinstance(key, bytes) else str(key).encode())
