"""The connection to the store: the only module that imports redis, and where its errors become ours.

The library's own retry is off. Every command sent through here may be repeated, because every script is
idempotent and every other command is a read or a hint, so a broken connection or a lost reply is retried once on
a fresh connection, after `revive` had the chance to bring an embedded server back. Replies stay bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from bot.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.store.scripts import Script, ScriptText
from bot.store.wire import newer

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

Arg: TypeAlias = bytes | str | int
Command: TypeAlias = Sequence[Arg]
# What a server answers has no static type; `wire` gives it one.
Reply: TypeAlias = Any

_TRIES: Final = 2
_REFUSALS: Final = MappingProxyType(
    {
        "OOM": ("the store's memory limit is reached", "raise `maxmemory` of the store"),
        "READONLY": ("the store is a read-only replica", "point `store.url` at the primary"),
        "MISCONF": ("the store cannot write to its disk", "make room on the store's disk and look at its log"),
        "NOPERM": (
            "the store's user may not run a command Lockgate needs",
            "grant that user the commands and keys `lg:*`",
        ),
        "NOREPLICAS": (
            "the store has too few replicas to write",
            "mend the replicas, or lower `min-replicas-to-write`",
        ),
        "MASTERDOWN": ("the store lost its primary", "wait for the failover, or mend the primary"),
        "NOAUTH": ("the store demands a password", "put user and password into LOCKGATE_STORE_URL"),
        "WRONGPASS": ("the store refused the password", "mend user and password in LOCKGATE_STORE_URL"),
    }
)


class Link:
    """A pool of connections to one store, and the scripts registered there."""

    def __init__(
        self,
        pool: BlockingConnectionPool,
        scripts: dict[Script, ScriptText],
        *,
        timeout: float,
        name: str,
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take a pool whose connections the server knows by `name`.

        `timeout` in seconds bounds each exchange, `revive` restarts an embedded server.
        """
        self.name = name
        self._pool = pool
        self._scripts = scripts
        self._timeout = timeout
        self._revive = revive
        self._reviving = asyncio.Lock()

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg], *hints: Command) -> Reply:
        """Run a script and return its reply; `hints` go along in the same round trip, their replies are dropped.

        Raises StoreError: see `commands`.
        """
        return _checked((await self._run(script, keys, args, hints))[0])

    async def script_asking(
        self, script: Script, keys: Sequence[str], args: Sequence[Arg], asked: Command, *hints: Command
    ) -> tuple[Reply, Reply]:
        """Run a script as `script` does, and return its reply and that to a read done behind it.

        Raises StoreError: see `commands`.
        """
        first, answer, *_ = await self._run(script, keys, args, (asked, *hints))
        return _checked(first), _checked(answer)

    async def scripts(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Reply]:
        """Run a script for several sessions in one round trip.

        Raises StoreError: see `commands`.
        """
        known = self._scripts[script]
        load = ("SCRIPT", "LOAD", known.text)
        runs = [("EVALSHA", known.digest, len(keys), *keys, *args) for keys, args in calls]
        return (await self.commands(load, *runs))[1:]

    async def commands(self, *commands: Command, block: float = 0) -> list[Reply]:
        """Send commands in one round trip and return their replies; `block` is how long the server may hold one.

        Raises StoreGoneError: the store does not answer. StoreRefusedError: it refuses. SchemaError: it holds
        records of a newer version.
        """
        return [_checked(reply) for reply in await self._exchange(commands, block)]

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.disconnect()

    async def _run(
        self, script: Script, keys: Sequence[str], args: Sequence[Arg], along: Sequence[Command]
    ) -> list[Reply]:
        known = self._scripts[script]
        tail = (len(keys), *keys, *args)
        replies = await self._exchange((("EVALSHA", known.digest, *tail), *along), 0)
        if isinstance(replies[0], NoScriptError):
            # EVAL registers the script too, and runs it whether or not the registration survives.
            replies = await self._exchange((("EVAL", known.text, *tail), *along), 0)
        return replies

    async def _exchange(self, commands: Sequence[Command], block: float) -> list[Reply]:
        for remaining in reversed(range(_TRIES)):
            try:
                async with asyncio.timeout(self._timeout + block):
                    return await self._once(commands)
            except (RedisConnectionError, RedisTimeoutError, TimeoutError, OSError) as error:
                if not remaining:
                    _gone(error)
            await self._restore()
        raise AssertionError

    async def _once(self, commands: Sequence[Command]) -> list[Reply]:
        # The library leaves its signatures untyped.
        pool = cast("Any", self._pool)
        connection: AbstractConnection = await pool.get_connection()
        try:
            packed = connection.pack_command(*commands[0]) if len(commands) == 1 else connection.pack_commands(commands)
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
            await pool.release(connection)

    async def _restore(self) -> None:
        if self._revive is not None:
            async with self._reviving:
                await self._revive()


def make_pool(url: str, *, connections: int, timeout: float, name: str) -> BlockingConnectionPool:
    """Return a pool for `redis://`, `rediss://` or `unix://`; nothing is connected yet.

    `timeout` in seconds is how long a caller waits for a free connection, `name` what the server calls each.
    Raises StoreError: not such an address.
    """
    try:
        return cast("Any", BlockingConnectionPool).from_url(
            url,
            max_connections=connections,
            timeout=timeout,
            socket_timeout=None,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=False,
            driver_info=None,
            client_name=name,
        )
    except ValueError as error:
        raise StoreError(
            "`store.url` is not an address of a store", next_step="write it as `redis://host:6379/0`"
        ) from error


def _checked(reply: Reply) -> Reply:
    if isinstance(reply, RedisError):
        _refused(reply)
    return reply


def _refused(error: RedisError) -> NoReturn:
    message = str(error)
    code = error.status_code or message.partition(" ")[0]
    if code == "LGSCHEMA":
        raise newer(message.removeprefix("LGSCHEMA ").partition(" script:")[0]) from error
    sentence, step = _REFUSALS.get(code, (f"the store refused a command: {message}", "look at the store's log"))
    raise StoreRefusedError(sentence, next_step=step) from error


def _gone(error: BaseException) -> NoReturn:
    # The library wraps what the server said on connecting.
    for cause in (error, error.__cause__):
        if isinstance(cause, AuthenticationError):
            _refused(cause)
    raise StoreGoneError("the store does not answer", next_step="start it, or check `store.url`") from error
