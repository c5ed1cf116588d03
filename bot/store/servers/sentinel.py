"""A store whose primary Sentinels know: like one server, except that another one may take over.

A new connection asks for the primary. After a failover the connections to the old one are made anew, and commands
without an answer are sent again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from bot.store.servers.address import Endpoint, StoreAddress
from bot.store.servers.connection import Command, Part, Reply, RetryLimit, settled
from bot.store.servers.server import Server

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

    def _stale(self, connection: "AbstractConnection") -> bool:
        """Say whether a connection leads to a server that is not the primary any more, as another one found out."""
        there, pool = cast("Any", connection), cast("Any", self._pool)
        return bool((there.host, there.port) != pool.master_address)

    async def exchange(self, commands: Sequence[Command], *, held: bool = False) -> list[Reply]:
        """Send commands to the primary."""
        return settled(await self._server.exchange(commands, held=held))

    async def parts(self) -> Sequence[Part]:
        """Return the primary."""
        return (Part(self._server),)

    async def restore(self) -> None:
        """Ask for the primary again."""
        await self._server.renew()

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()
        await self._sentinels.aclose()
