"""A store whose primary Sentinels know: like one server, except that another one may take over.

A new connection asks for the primary. After a failover the connections to the old one are made anew, and commands
without an answer are sent again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from bot.store.servers.address import Endpoint, StoreAddress
from bot.store.servers.connection import UNREACHED, Command, Part, Reply, RetryLimit, settled
from bot.store.servers.server import Server, single_pool

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


class _Sentinels(Sentinel):
    """The library's class, for one caller at a time: it sorts Sentinels by their answers, and two at once lose one."""

    def __init__(self, hosts: Sequence[Endpoint], options: Mapping[str, Any]) -> None:
        cast("Any", super()).__init__(hosts, sentinel_kwargs=options)
        self._asking = asyncio.Lock()

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the primary of a service. Raises MasterNotFoundError: no Sentinel knows it."""
        async with self._asking:
            return cast("tuple[str, int]", await super().discover_master(service_name))


class SentinelServers:
    """The primary of a service that Sentinels look after. Implements `StoreServers`."""

    def __init__(self, address: StoreAddress, options: Mapping[str, Any], limit: RetryLimit) -> None:
        """Take the options of connections to the servers, as `connecting` returns them; nothing is connected yet."""
        self.limit = limit
        self.ordered = True
        # One that hangs must leave time to ask the others.
        within = limit.each / (len(address.hosts) + 1)
        for_sentinels: dict[str, Any] = {
            **dict(address.sentinel),
            **{name: value for name, value in options.items() if name.startswith("ssl")},
            "ssl": address.encrypted,
            "socket_timeout": within,
            "socket_connect_timeout": within,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
        }
        self._sentinels = _Sentinels(address.hosts, for_sentinels)
        for_servers = {name: value for name, value in options.items() if name not in {"connection_class", "host"}}
        self._pool = SentinelConnectionPool(address.service, self._sentinels, ssl=address.encrypted, **for_servers)
        self._server = Server(self._pool, self._stale)
        self._service, self._options = address.service, options
        self._replicas = dict[Endpoint, Server]()

    def _stale(self, connection: "AbstractConnection") -> bool:
        """Say whether a connection leads to a server that is not the primary any more, as another one found out."""
        there, pool = cast("Any", connection), cast("Any", self._pool)
        return bool((there.host, there.port) != pool.master_address)

    async def exchange(self, commands: Sequence[Command], *, held: bool = False) -> list[Reply]:
        """Send commands to the primary."""
        return settled(await self._server.exchange(commands, held=held))

    async def parts(self) -> Sequence[Part]:
        """Return the primary that the Sentinels name now, or the known one if they do not answer soon.

        A primary that they replaced while it was cut off from them takes writes until they reach it again, and these
        are lost. So connections to it are left as soon as another one is named.
        """
        with suppress(*UNREACHED):
            async with asyncio.timeout(self.limit.each / 4):
                await cast("Any", self._pool).get_master_address()
        return (Part(self._server),)

    async def nodes(self) -> Sequence[Part]:
        """Return the primary, and its replicas if the Sentinels may be asked for them."""
        found = cast("list[Endpoint]", await cast("Any", self._sentinels).discover_slaves(self._service))
        for endpoint in self._replicas.keys() - set(found):
            await self._replicas.pop(endpoint).retire()
        for host, port in found:
            if (host, port) not in self._replicas:
                self._replicas[host, port] = Server(single_pool({**self._options, "host": host, "port": port}))
        replicas = [Part(self._replicas[endpoint], name=f"{endpoint[0]}:{endpoint[1]}") for endpoint in sorted(found)]
        return [Part(self._server), *replicas]

    async def restore(self) -> None:
        """Ask for the primary again."""
        await self._server.renew()

    async def close(self) -> None:
        """Close all connections."""
        for server in (self._server, *self._replicas.values()):
            await server.close()
        await self._sentinels.aclose()
