"""The connection to the store: the only module that imports redis, and where its errors become ours.

The library's own retry is off. Every command sent through here may be repeated, because every script is
idempotent and every other command is a read or a hint, so a broken connection or a lost reply is retried once on
a fresh connection, after `revive` had the chance to bring an embedded server back. Replies stay bytes.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLCertVerificationError
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import hiredis
from redis.asyncio import ConnectionPool
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

from bot.core.errors import OperatorError, SchemaError, StoreError, StoreGoneError, StoreRefusedError
from bot.store.codec import unreadable
from bot.store.records import other_version
from bot.store.scripts import Script, ScriptText

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


Arg: TypeAlias = bytes | str | int


Command: TypeAlias = Sequence[Arg]


# What a server answers has no static type; `wire` gives it one.
Reply: TypeAlias = Any


# The library's signature is of a tuple of one.
_packed: Final = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis.pack_command)


_LOGGER: Final = logging.getLogger(__name__)


_TRIES: Final = 2


_COMMAND: Final = re.compile(r"'([a-z|]+)' command")
"""How a server names the command that a user may not run."""


_DENIED_IN_SCRIPT: Final = "ACL failure in script"


_WRONG_TYPE: Final = "WRONGTYPE"


_IN_SCRIPT: Final = "user_script"


_REFUSALS: Final = MappingProxyType(
    {
        "OOM": ("the store's memory limit is reached", "raise `maxmemory` of the store"),
        "READONLY": ("the store is a read-only replica", "point `store.url` at the primary"),
        "MISCONF": ("the store cannot write to its disk", "make room on the store's disk and look at its log"),
        "NOREPLICAS": (
            "the store has too few replicas to write",
            "mend the replicas, or lower `min-replicas-to-write`",
        ),
        "MASTERDOWN": ("the store lost its primary", "wait for the failover, or mend the primary"),
        "NOAUTH": ("the store demands a password", "put user and password into LOCKGATE_STORE_URL"),
        "WRONGPASS": ("the store refused the password", "mend user and password in LOCKGATE_STORE_URL"),
    }
)


class Connection:
    """A pool of connections to one store, and the scripts registered there."""

    def __init__(
        self,
        pool: ConnectionPool,
        scripts: dict[Script, ScriptText],
        *,
        timeout: float,
        name: str,
        address: str = "",
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take a pool whose connections the server knows by `name`.

        `timeout` in seconds bounds each exchange, `revive` restarts an embedded server. `address` is what the log says
        of where it is.
        """
        self.name = name
        self._address = address
        self._pool = pool
        self._scripts = scripts
        self._timeout = timeout
        self._revive = revive
        self._reviving = asyncio.Lock()
        self._room = asyncio.Semaphore(pool.max_connections)
        self._idle = list["AbstractConnection"]()

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg], *hints: Command) -> Reply:
        """Run a script and return its reply; `hints` go along in the same round trip, their replies are dropped.

        Raises StoreError: see `commands`.
        """
        return self._checked((await self._run(script, keys, args, hints))[0])

    async def script_asking(
        self, script: Script, keys: Sequence[str], args: Sequence[Arg], asked: Command, *hints: Command
    ) -> tuple[Reply, Reply]:
        """Run a script as `script` does, and return its reply and that to a read done behind it.

        Raises StoreError: see `commands`.
        """
        first, answer, *_ = await self._run(script, keys, args, (asked, *hints))
        return self._checked(first), self._checked(answer)

    async def scripts(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Reply]:
        """Run a script for several sessions in one round trip.

        Returns the replies, None for a session with a record that cannot be read: it must not hide the others.
        Raises StoreError: see `commands`.
        """
        known = self._scripts[script]
        load = ("SCRIPT", "LOAD", known.text)
        runs = [("EVALSHA", known.digest, len(keys), *keys, *args) for keys, args in calls]
        return [self._read(reply) for reply in (await self._exchange((load, *runs), 0))[1:]]

    async def commands(self, *commands: Command, block: float = 0) -> list[Reply]:
        """Send commands in one round trip and return their replies; `block` is how long the server may hold one.

        Without commands there is no round trip.

        Raises StoreGoneError: the store does not answer. StoreRefusedError: it refuses, or is not trusted.
        SchemaError: it holds records of a newer version.
        """
        return [self._checked(reply) for reply in await self._exchange(commands, block)] if commands else []

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
                self._log_failed("the store did not answer", type(error).__name__)
                if not remaining:
                    self._gone(error)
            await self._restore()
        raise AssertionError

    def _checked(self, reply: Reply) -> Reply:
        if isinstance(reply, RedisError):
            self._refuse(reply)
        return reply

    def _read(self, reply: Reply) -> Reply:
        """Return a reply, None for one that tells of a record that cannot be read."""
        if isinstance(reply, RedisError) and isinstance(_refused(reply), SchemaError):
            return None
        return self._checked(reply)

    def _refuse(self, error: RedisError) -> NoReturn:
        refusal = _refused(error)
        # What the server says beside that may quote a record.
        self._log_failed("the store refused a command", str(refusal).partition(": ")[0], refusal.next_step)
        raise refusal from error

    def _gone(self, error: BaseException) -> NoReturn:
        # The library wraps what the server said on connecting.
        for cause in (error, error.__cause__, error.__context__):
            if isinstance(cause, AuthenticationError):
                self._refuse(cause)
            if isinstance(cause, SSLCertVerificationError):
                raise StoreRefusedError(
                    f"the store's certificate is not trusted: {cause.verify_message}",
                    next_step="name the file of its authority at the end of `store.url`: `?ssl_ca_certs=/path/ca.pem`",
                ) from error
        raise StoreGoneError("the store does not answer", next_step="start it, or check `store.url`") from error

    def _log_failed(self, event: str, cause: str, step: str = "") -> None:
        facts = {"subject": "store", "cause": cause, "address": self._address, "step": step}
        _LOGGER.warning(event, extra=facts)

    async def _once(self, commands: Sequence[Command]) -> list[Reply]:
        # The library leaves its signatures untyped. Its pool takes longer to hand a connection out than a server
        # takes to answer on it, so what was once had is kept here.
        pool = cast("Any", self._pool)
        async with self._room:
            connection: AbstractConnection = self._idle.pop() if self._idle else await pool.get_connection()
            try:
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

    async def _restore(self) -> None:
        """Start an embedded server again if it is gone; why that cannot be done is for the log too."""
        if self._revive is not None:
            async with self._reviving:
                try:
                    await self._revive()
                except (OperatorError, StoreError) as error:
                    self._log_failed("the store could not be started again", str(error), error.next_step)
                    raise


def make_pool(url: str, *, connections: int, timeout: float, name: str) -> ConnectionPool:
    """Return a pool for `redis://`, `rediss://` or `unix://`; nothing is connected yet.

    `timeout` in seconds is how long connecting may take, `name` what the server calls each connection.
    Raises StoreError: not such an address.
    """
    try:
        return cast("Any", ConnectionPool).from_url(
            url,
            max_connections=connections,
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


def _refused(error: RedisError) -> StoreError:
    """Return the error of ours for what the server answers."""
    message = str(error)
    code = error.status_code or message.partition(" ")[0]
    if code == "LGSCHEMA":
        return other_version(int(message.split()[1]))
    if code == "LGRECORD":
        return unreadable()
    if code == "NOPERM" or _DENIED_IN_SCRIPT in message:
        command = _COMMAND.search(message)
        denied = "use the keys `lg:*`" if command is None else f"run `{command[1].upper().replace('|', ' ')}`"
        return StoreRefusedError(
            f"the store's user may not {denied}", next_step="grant that user what docs/operating.md lists"
        )
    if code not in _REFUSALS and (code == _WRONG_TYPE or _IN_SCRIPT in message):
        # A script of ours stumbled over what no program of ours wrote.
        return unreadable()
    sentence, step = _REFUSALS.get(code, (f"the store refused a command: {message}", "look at the store's log"))
    return StoreRefusedError(sentence, next_step=step)
