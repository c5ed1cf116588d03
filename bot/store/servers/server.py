"""One server of the store: a pool of connections, on each of which many commands are one exchange.

Also the simplest store, which is one server. The library's own retry is off. Replies stay bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import Connection as LibraryConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    RedisError,
    ResponseError,
)

from bot.core.errors import OperatorError, StoreError
from bot.store.connection import Arg, Command, Part, Reply, RetryLimit
from bot.store.servers.address import StoreAddress

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


# The library's signature is of a tuple of one.
_packed: Final = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)


_FOR_POOLS: Final = frozenset({"connection_class", "max_connections"})
"""Options of a pool, which its connections do not take."""


class Server:
    """A pool of connections to one server."""

    def __init__(self, pool: ConnectionPool, stale: "Callable[[AbstractConnection], bool] | None" = None) -> None:
        """Take a pool; `stale` says of a connection that it leads to where the server was before."""
        self._pool = pool
        self._stale = stale
        self._room = asyncio.Semaphore(pool.max_connections)
        self._idle = list["AbstractConnection"]()
        self._retired = False

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands in one round trip, and return their replies, errors among them.

        Raises what the library raises where the server does not answer.
        """
        # The library leaves its signatures untyped. Its pool takes longer to hand a connection out than a server
        # takes to answer on it, so what was once had is kept here.
        pool = cast("Any", self._pool)
        async with self._room:
            if self._retired:
                raise RedisConnectionError("the server is not one of the store's any more")
            connection: AbstractConnection = self._idle.pop() if self._idle else await pool.get_connection()
            try:
                if self._stale is not None and self._stale(connection):
                    await connection.disconnect(nowait=True)
                # The library would look into its rules for retries each time; most often all is well.
                if not connection.is_connected or await connection.can_read():
                    await pool.ensure_connection(connection)
                packed = b"".join([_packed(tuple(command)) for command in commands])
                await connection.send_packed_command(packed, check_health=False)
                replies: list[Reply] = []
                for _ in commands:
                    try:
                        replies.append(await connection.read_response())
                    except ResponseError as error:
                        replies.append(error)
            except BaseException:
                # Cancelled or broken between question and answer: what still arrives belongs to nobody.
                await connection.disconnect(nowait=True)
                raise
            else:
                return replies
            finally:
                self._idle.append(connection)

    async def disconnect_idle(self) -> None:
        """Have connections that nobody uses made anew when they are wanted."""
        for connection in list(self._idle):
            await connection.disconnect(nowait=True)

    async def retire(self) -> None:
        """Close all connections and make no others: who waits for an answer here is to ask elsewhere."""
        self._retired = True
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.disconnect()


class SingleServer:
    """A store that is one server. Implements `StoreServers`."""

    def __init__(self, server: Server, *, timeout: float, revive: Callable[[], Awaitable[None]] | None = None) -> None:
        """Take a server; `timeout` in seconds bounds each exchange, `revive` restarts an embedded server."""
        self.limit = RetryLimit(timeout)
        self.ordered = True
        self._server = server
        self._revive = revive
        self._reviving = asyncio.Lock()
        self._revivals = 0
        self._failure: Exception | None = None

    def exchange(self, commands: Sequence[Command]) -> Awaitable[list[Reply]]:
        """Send commands."""
        return self._server.exchange(commands)

    async def parts(self) -> Sequence[Part]:
        """Return the one server."""
        return (Part(self._server),)

    async def restore(self) -> None:
        """Start an embedded server again if it is gone. Raises OperatorError, StoreError: that cannot be done.

        Callers that come while this is tried share its outcome: a server that hangs is waited for once, not by each of
        them in turn.
        """
        if self._revive is None:
            return
        known = self._revivals
        async with self._reviving:
            if self._revivals == known:
                await self._revived(self._revive)
            elif self._failure is not None:
                raise self._failure

    async def _revived(self, revive: Callable[[], Awaitable[None]]) -> None:
        """Try it once, and note the outcome for all who wait for it."""
        try:
            await revive()
        except (OperatorError, StoreError) as error:
            self._failure = error
            raise
        else:
            self._failure = None
        finally:
            self._revivals += 1

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()


def connecting(address: StoreAddress, *, connections: int, timeout: float, name: str) -> dict[str, Any]:
    """Return what a pool needs for connections to any server of an address.

    `timeout` in seconds is how long connecting may take, `name` what the server calls each connection.
    Raises StoreError: the address has an option that is not one.
    """
    fixed: Mapping[str, Any] = {
        "socket_timeout": None,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
        "driver_info": None,
        "client_name": name,
    }
    try:
        options = {**fixed, **parse_url(address.server)}
        kind: Any = options.get("connection_class", LibraryConnection)
        # It is not connected: only whether it takes the options.
        kind(**{option: value for option, value in options.items() if option not in _FOR_POOLS})
    except ValueError as error:
        raise StoreError(
            "`store.url` is not an address of a store", next_step="write it as `redis://host:6379/0`"
        ) from error
    except (TypeError, RedisError) as error:
        raise StoreError(
            "`store.url` has an option that is not known", next_step="mend what stands behind `?` in it"
        ) from error
    return {"max_connections": connections, **options}


def single_pool(options: Mapping[str, Any]) -> ConnectionPool:
    """Return a pool of connections to one server; nothing is connected yet."""
    return ConnectionPool(**options)
