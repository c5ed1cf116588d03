"""One server of the store: a pool of connections, on each of which many commands are one exchange.

Also what all ways to reach a store have in common: the port `Servers`, and the simplest of them, the store that is one
server. The library's own retry is off. Replies stay bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import Connection as LibraryConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from bot.core.errors import StoreError
from bot.store.address import StoreAddress

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


Arg: TypeAlias = bytes | str | int


Command: TypeAlias = Sequence[Arg]


# What a server answers has no static type; `wire` gives it one.
Reply: TypeAlias = Any


# The library's signature is of a tuple of one.
_packed: Final = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)


UNREACHED: Final = (RedisConnectionError, RedisTimeoutError, TimeoutError, OSError)
"""What is raised where a server does not answer."""


_PASSING: Final = (ReadOnlyError, ClusterDownError, TryAgainError, AskError)
"""What servers answer while another one takes over: the old primary, a cluster without one, slots that move."""


_PASSING_CODES: Final = ("NOREPLICAS", "UNBLOCKED")
"""Those for which the library has no class: a primary that was just promoted has no replica yet, one that was just
demoted holds no blocking command any more."""


_FOR_POOLS: Final = frozenset({"connection_class", "max_connections"})
"""Options of a pool, which its connections do not take."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an exchange is tried, in seconds.

    One try takes `each` at most. A failed one is followed by another at once; then others follow, with growing pauses,
    until `total` is over since the first failed.
    """

    each: float
    total: float = 0.0


def _everything(_key: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Part:
    """A server that holds a part of the store: of its slots `first` is the first, and `holds` tells of a key.

    `name` is where it is, empty where one server holds everything.
    """

    server: "Server"
    first: int = 0
    name: str = ""
    holds: Callable[[str], bool] = _everything


class Servers(Protocol):
    """Where the commands to a store go."""

    @property
    def patience(self) -> Patience:
        """How long to try."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether the commands of one exchange are done in their order: all are for the same server."""
        ...

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands, and return the replies in the order of the commands, errors among them.

        Raises what the library raises where a server does not answer, and `ResponseError` for an answer that will be
        another one soon.
        """
        ...

    async def parts(self) -> Sequence[Part]:
        """Return the servers that the store is spread over, by their first slots."""
        ...

    async def restore(self) -> None:
        """Do what may help after an exchange failed."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


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
    """A store that is one server. Implements `Servers`."""

    def __init__(self, server: Server, *, timeout: float, revive: Callable[[], Awaitable[None]] | None = None) -> None:
        """Take a server; `timeout` in seconds bounds each exchange, `revive` restarts an embedded server."""
        self.patience = Patience(timeout)
        self.ordered = True
        self._server = server
        self._revive = revive
        self._reviving = asyncio.Lock()

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands."""
        return await self._server.exchange(commands)

    async def parts(self) -> Sequence[Part]:
        """Return the one server."""
        return (Part(self._server),)

    async def restore(self) -> None:
        """Start an embedded server again if it is gone. Raises OperatorError, StoreError: that cannot be done."""
        if self._revive is not None:
            async with self._reviving:
                await self._revive()

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()


def settled(replies: list[Reply]) -> list[Reply]:
    """Return replies. Raises ResponseError: one of them tells that another server is about to take over."""
    for reply in replies:
        if isinstance(reply, ResponseError) and passes(reply):
            raise reply
    return replies


def passes(error: BaseException) -> bool:
    """Say whether a failure may be over soon, as it is in a failover; a refused password, for one, is not."""
    if lasting(error) is not None:
        return False
    if isinstance(error, ResponseError):
        return isinstance(error, _PASSING) or (error.status_code or str(error)).startswith(_PASSING_CODES)
    return isinstance(error, UNREACHED)


def lasting(error: BaseException) -> AuthenticationError | SSLCertVerificationError | None:
    """Return what it was that no further try mends. The library wraps what the server said on connecting."""
    for cause in (error, error.__cause__, error.__context__):
        if isinstance(cause, (AuthenticationError, SSLCertVerificationError)):
            return cause
    return None


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
