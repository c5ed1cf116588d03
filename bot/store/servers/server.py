"""One server of the store: a connection that all requests share, each of which sends its commands in one round trip.

Also the simplest store, which is one server. The library's own retry is off. Replies stay bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import Connection as LibraryConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import RedisError

from bot.core.errors import OperatorError, StoreError
from bot.store.servers.address import StoreAddress
from bot.store.servers.connection import Arg, Command, Part, Reply, RetryLimit, Subscriber, Subscription
from bot.store.servers.shared_connection import SharedConnection

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


# The library's signature is of a tuple of one.
_packed: Final = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)


_FOR_POOLS: Final = frozenset({"connection_class", "max_connections"})
"""Options of a pool, which its connections do not take."""


_LEFT: Final = "the server is not one of the store's any more"


class Server:
    """The connections to one server: one that all requests share, and others for commands that the server holds."""

    def __init__(self, pool: ConnectionPool, stale: "Callable[[AbstractConnection], bool] | None" = None) -> None:
        """Take a pool, which makes connections; `stale` says of one that it leads to an earlier place of the server."""
        self._pool = pool
        self._stale = stale
        self._connecting = asyncio.Lock()
        self._shared: SharedConnection | None = None
        self._lone = list[SharedConnection]()
        # Closed ones are used again: an encrypted connection has read its certificate authorities.
        self._closed = list["AbstractConnection"]()
        self._all = WeakSet[SharedConnection]()
        self._retired = False

    async def exchange(self, commands: Sequence[Command], *, held: bool = False) -> list[Reply]:
        """Send commands in one round trip, and return their replies, errors among them.

        A command that the server may hold, as `held` says, has a connection of its own, so that no other command waits
        for it. Raises the library's error where the server does not answer.
        """
        if not commands:
            return []
        packed = b"".join([_packed(tuple(command)) for command in commands])
        connection = self._shared
        if held:
            connection = await self._one_of_its_own()
        elif connection is None or not self._leads_there(connection):
            connection = await self._one_for_all()
        try:
            return await connection.ask(packed, len(commands))
        except asyncio.CancelledError:
            # Its server may hang. Late replies belong to no request; the other requests get their answers first.
            connection.retire()
            raise
        finally:
            if held:
                self._lone.append(connection)

    async def listen(self, subscriber: Subscriber) -> Subscription:
        """Listen to a channel on a connection of its own."""

        def closed(made: "AbstractConnection") -> None:
            self._closed.append(made)
            subscriber.lost()

        connection = await self._made(closed, subscriber.heard)
        subscription = _ServerSubscription(connection)
        try:
            await subscription.ask("SUBSCRIBE", subscriber.channel)
        except BaseException:
            await subscription.close()
            raise
        return subscription

    async def renew(self) -> None:
        """Have connections made anew when they are needed; waiting requests get their answers first."""
        for connection in list(self._all):
            connection.retire()

    async def retire(self) -> None:
        """Close all connections and make no others: waiting callers must ask elsewhere."""
        self._retired = True
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        for connection in list(self._all):
            await connection.close()

    def _leads_there(self, connection: SharedConnection) -> bool:
        """Say whether a connection is open, and leads to the server's present place; otherwise it is not used."""
        if connection.open and self._stale is not None and self._stale(connection.made):
            connection.retire()
        return connection.open

    async def _one_for_all(self) -> SharedConnection:
        async with self._connecting:
            if self._shared is None or not self._leads_there(self._shared):
                self._shared = await self._made()
            return self._shared

    async def _one_of_its_own(self) -> SharedConnection:
        while self._lone:
            connection = self._lone.pop()
            if self._leads_there(connection):
                return connection
        return await self._made()

    async def _made(
        self,
        closed: "Callable[[AbstractConnection], None] | None" = None,
        heard: Callable[[bytes], None] | None = None,
    ) -> SharedConnection:
        """Connect; `closed` and `heard` are those of the connection. Raises the library's error where it cannot."""
        if self._retired:
            raise RedisConnectionError(_LEFT)
        # The library leaves its signatures untyped.
        made: AbstractConnection = self._closed.pop() if self._closed else cast("Any", self._pool).make_connection()
        try:
            await made.connect()
        except BaseException:
            # It may be open, with its greeting half sent.
            await made.disconnect(nowait=True)
            self._closed.append(made)
            raise
        if self._retired:
            # It left the store meanwhile, so this connection would never be closed.
            await made.disconnect(nowait=True)
            raise RedisConnectionError(_LEFT)
        connection = SharedConnection(made, closed or self._closed.append, heard)
        self._all.add(connection)
        return connection


class _ServerSubscription:
    """Implements `Subscription`."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection

    @property
    def open(self) -> bool:
        """Whether it still hears messages."""
        return self._connection.open

    async def check(self) -> None:
        """Ask the server whether it is there."""
        await self.ask("PING")

    async def ask(self, *command: Arg) -> None:
        """Send the server a command. Raises RedisError: it refuses."""
        (reply,) = await self._connection.ask(_packed(command), 1)
        if isinstance(reply, RedisError):
            raise reply

    async def close(self) -> None:
        """Stop listening."""
        await self._connection.close()


class SingleServer:
    """A store that is one server. Implements `StoreServers`."""

    def __init__(self, server: Server, *, timeout: float, revive: Callable[[], Awaitable[None]] | None = None) -> None:
        """Take a server; `timeout` in seconds bounds each request, `revive` restarts an embedded server."""
        self.limit = RetryLimit(timeout)
        self.ordered = True
        self._server = server
        self._revive = revive
        self._reviving = asyncio.Lock()
        self._revivals = 0
        self._failure: Exception | None = None

    def exchange(self, commands: Sequence[Command], *, held: bool = False) -> Awaitable[list[Reply]]:
        """Send commands."""
        return self._server.exchange(commands, held=held)

    async def parts(self) -> Sequence[Part]:
        """Return the one server."""
        return (Part(self._server),)

    async def nodes(self) -> Sequence[Part]:
        """Return the one server: its replicas, if it has some, never take over."""
        return await self.parts()

    async def restore(self) -> None:
        """Start an embedded server again if it is gone.

        Callers that come while this is tried share its outcome: a server that hangs is waited for once, not by each of
        them in turn.

        Raises:
            OperatorError: It cannot be started.
            StoreError: It cannot be started.
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
        """Try it once, and note the outcome for all waiting callers."""
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


def connecting(address: StoreAddress, *, timeout: float, name: str) -> dict[str, Any]:
    """Return the options of connections to any server of an address.

    `timeout` in seconds is how long connecting may take, `name` the server's name for each connection. Raises
    StoreError: an option of the address is invalid.
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
        # It is not connected; this only checks the options.
        kind(**{option: value for option, value in options.items() if option not in _FOR_POOLS})
    except ValueError as error:
        raise StoreError(
            "`store.url` is not an address of a store", next_step="write it as `redis://host:6379/0`"
        ) from error
    except (TypeError, RedisError) as error:
        raise StoreError(
            "`store.url` has an option that is not known", next_step="mend the part behind `?` in it"
        ) from error
    return options


def single_pool(options: Mapping[str, Any]) -> ConnectionPool:
    """Return a pool that makes connections to one server; nothing is connected yet."""
    return ConnectionPool(**options)
