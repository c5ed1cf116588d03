"""The connection to the store: how often a command is tried, and where the library's errors become ours.

`StoreServers` decides where commands go: one server, the primary that Sentinels know, or a Cluster. Every command sent
here may be repeated, because every script is idempotent and every other command is a read or a hint. After a broken
connection or a lost reply one server is asked once more; where another may take over, tries continue for as long as
that takes. On a Cluster a script goes first and its hints follow its reply, so that no hint runs ahead.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from ssl import SSLCertVerificationError
from typing import Any, Final, NoReturn, Protocol, TypeAlias, TypeVar

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    NoScriptError,
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

from bot.core.errors import OperatorError, SchemaError, StoreError, StoreGoneError, StoreRefusedError
from bot.store.scripts.loader import Script, ScriptText
from bot.store.servers.refusals import refusal_for

T = TypeVar("T")


Arg: TypeAlias = bytes | str | int


Command: TypeAlias = Sequence[Arg]


# The reply of a server has no static type; `wire` gives it one.
Reply: TypeAlias = Any


REACH: Final = "see whether it runs, and whether this machine reaches it"
"""The step of an operator if the store does not answer."""

UNREACHED: Final = (RedisConnectionError, RedisTimeoutError, TimeoutError, OSError)
"""The errors of a server that does not answer."""


_PASSING: Final = (ReadOnlyError, ClusterDownError, TryAgainError, AskError)
"""Errors of servers while another one takes over: the old primary, a cluster without one, slots that move."""


_PASSING_CODES: Final = ("NOREPLICAS", "UNBLOCKED")
"""Such errors without a class in the library: a primary that was just promoted has no replica yet, one that was just
demoted holds no blocking command any more."""


_LOGGER: Final = logging.getLogger(__name__)


_PAUSE_SECONDS: Final = 0.02


_LONGEST_PAUSE_SECONDS: Final = 0.5
"""Seconds to wait before the third try, and at most before each later one."""


WALKED: Final = b"0"
"""The cursor at the begin and the end of a walk."""


_CURSOR: Final = re.compile(rb"([0-9]{1,5}) ([!-~]*) ([0-9]{1,20})")

_LAST_CURSOR: Final = (1 << 64) - 1
"""The largest cursor that a server takes."""


_LOADS: Final = 3
"""How often scripts are loaded for one call: another server that takes over meanwhile lacks them again."""


_PROOFS: Final = 10_000
"""How many names are tried to find one on a server."""


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """How long a request is tried, in seconds.

    One try takes at most `each`. A failed one is followed by another at once; then others follow, with growing pauses,
    until `total` has passed since the first failure.
    """

    each: float
    total: float = 0.0


class Subscription(Protocol):
    """A connection that listens to a channel."""

    @property
    def open(self) -> bool:
        """Whether it still hears messages."""
        ...

    async def check(self) -> None:
        """Ask the server whether it is there. Raises the library's error where it does not answer."""
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A listener to a channel: `heard` gets its messages, `lost` is called when the connection is lost."""

    channel: str
    heard: Callable[[bytes], None]
    lost: Callable[[], None]


class Answering(Protocol):
    """One server."""

    async def listen(self, subscriber: Subscriber) -> Subscription:
        """Listen to a channel on a connection of its own.

        Raises the library's error where the server does not answer, or does not allow it.
        """
        ...

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands, and return the replies in the order of the commands, errors among them.

        Raises the library's error where the server does not answer.
        """
        ...


def _everything(_key: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Part:
    """A server that holds a part of the store: `first` is its first slot, and `holds` tells whether it has a key.

    `name` is its address, empty where one server holds everything.
    """

    server: Answering
    first: int = 0
    name: str = ""
    holds: Callable[[str], bool] = _everything


class StoreServers(Protocol):
    """The servers that the commands of a store go to."""

    @property
    def limit(self) -> RetryLimit:
        """How long to try."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether the commands of one request are done in their order: all are for the same server."""
        ...

    def exchange(self, commands: Sequence[Command], *, held: bool = False) -> Awaitable[list[Reply]]:
        """Send commands, and return the replies in the order of the commands, errors among them.

        `held` says that the server may hold one, so that nothing else may wait behind them. Raises the library's error
        where a server does not answer, and `ResponseError` for an answer that will be another one soon.
        """
        ...

    async def parts(self) -> Sequence[Part]:
        """Return the servers that the store is spread over, by their first slots."""
        ...

    async def nodes(self) -> Sequence[Part]:
        """Return all servers that are known, replicas too."""
        ...

    async def restore(self) -> None:
        """Take steps that may help after a request failed."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Connection:
    """The servers of one store, and the scripts registered there."""

    def __init__(
        self, servers: StoreServers, scripts: Mapping[Script, ScriptText], *, name: str, address: str = ""
    ) -> None:
        """Take servers that know this process's connections by `name`; `address` is their address in the log."""
        self.name = name
        self._address = address
        self._servers = servers
        self._scripts = scripts
        self._texts = {script.digest: script.text for script in scripts.values()}
        self._listened = -1
        self._failed: float | None = None

    @property
    def ordered(self) -> bool:
        """Whether one server has all keys, so that a script may read one of another slot."""
        return self._servers.ordered

    @property
    def failed(self) -> float | None:
        """Seconds since a request failed last, so that another server may have taken over; None if none can have."""
        return None if self._failed is None else asyncio.get_running_loop().time() - self._failed

    def command(self, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> Command:
        """Return the command that runs a script, for use among others."""
        return ("EVALSHA", self._scripts[script].digest, len(keys), *keys, *args)

    async def script(self, script: Script, keys: Sequence[str], args: Sequence[Arg], *hints: Command) -> Reply:
        """Run a script and return its reply; `hints` are sent along, their replies are dropped.

        On one server they go in the same round trip, on a Cluster after the script. A hint that is lost there with its
        server is made good by the sweep. Raises StoreError: see `commands`.
        """
        (reply,) = await self._run(script, keys, args, hints=hints)
        return reply

    async def script_asking(
        self, script: Script, keys: Sequence[str], args: Sequence[Arg], asked: Command, *hints: Command
    ) -> tuple[Reply, Reply]:
        """Run a script as `script` does, and return its reply and that to a read.

        On one server the read follows the script, on a Cluster it runs at the same time on another server. Raises
        StoreError: see `commands`.
        """
        first, answer = await self._run(script, keys, args, (asked,), hints=hints)
        return first, answer

    async def scripts(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Reply]:
        """Run a script for several sessions in one round trip.

        Returns the replies, None for a session with a record that cannot be read: it must not hide the others.
        Raises StoreError: see `commands`.
        """
        runs = [self.command(script, keys, args) for keys, args in calls]
        replies = await self._sent(runs)
        for _ in range(_LOADS):
            missed = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if not missed:
                break
            await self.everywhere(("SCRIPT", "LOAD", self._scripts[script].text))
            again = await self._sent([runs[place] for place in missed])
            for place, reply in zip(missed, again, strict=True):
                replies[place] = reply
        return [self._read(reply) for reply in replies]

    async def commands(self, *commands: Command, block: float = 0) -> list[Reply]:
        """Send commands in one round trip and return their replies; `block` is the longest wait in seconds.

        On a Cluster there is one round trip to each server, at the same time. A command without a key, such as TIME,
        goes to the server of the first key. Without commands there is no round trip.

        Raises:
            StoreGoneError: The store does not answer.
            StoreRefusedError: It refuses, or is not trusted.
            SchemaError: It holds records of another version.
        """
        return [self._checked(reply) for reply in await self._exchange(commands, block)] if commands else []

    async def reads(self, *commands: Command) -> list[Reply]:
        """Send reads of several sessions as `commands` does; None for one whose record cannot be read.

        It must not hide the others. Raises StoreError: see `commands`.
        """
        return [self._read(reply) for reply in await self._exchange(commands)] if commands else []

    async def in_order(self, *steps: Sequence[Command], block: float = 0) -> list[Reply]:
        """Send commands as `commands` does, those of one step after those of the step before.

        On one server they still go in one round trip. `block` is for the first step.
        """
        if self._servers.ordered:
            return await self.commands(*chain.from_iterable(steps), block=block)
        replies = list[Reply]()
        for place, step in enumerate(steps):
            replies += await self.commands(*step, block=0 if place else block)
        return replies

    async def everywhere(self, command: Command) -> list[tuple[str, Reply]]:
        """Send a command to every server that holds a part of the store; return their names with the replies.

        The name is empty where there is one server. Raises StoreError: see `commands`.
        """

        async def attempt() -> list[tuple[str, Reply]]:
            parts = await self._servers.parts()
            return [(part.name, (await part.server.exchange((command,)))[0]) for part in parts]

        return [(name, self._checked(reply)) for name, reply in await self._trying(attempt)]

    async def walk(self, cursor: bytes, pattern: str, most: int) -> tuple[bytes, list[bytes]]:
        """Search for keys in a stretch of about `most` keys; return the beginning of the next one, and the keys found.

        A walk begins and ends with `WALKED`. A key that is there all the time is found, unless its slot moves from one
        server to another meanwhile, and may be found twice. Raises StoreError: see `commands`.
        """
        first, name, at = _read_cursor(cursor)

        async def attempt() -> tuple[bytes, list[bytes]]:
            parts = await self._servers.parts()
            place = next((place for place, part in enumerate(parts) if part.first >= first), None)
            if place is None:
                return WALKED, []
            part, later = parts[place], parts[place + 1 :]
            # The cursor of the server before means nothing to another one that took over.
            begin = at if part.name == name else WALKED
            (reply,) = await part.server.exchange((("SCAN", begin, "MATCH", pattern, "COUNT", most),))
            end, found = self._checked(reply)
            if end != WALKED:
                return _cursor(part.first, part.name, end), found
            return (_cursor(later[0].first, "", WALKED) if later else WALKED), found

        return await self._trying(attempt)

    async def listen(self, subscriber: Subscriber) -> Subscription:
        """Listen to a channel at one server: any of them tells the messages that are published at any.

        Raises StoreError: see `commands`.
        """

        async def attempt() -> Subscription:
            parts = await self._servers.parts()
            # Another one each time, as one that is gone may still be listed.
            self._listened += 1
            return await parts[self._listened % len(parts)].server.listen(subscriber)

        return await self._trying(attempt)

    async def nodes(self) -> Sequence[Part]:
        """Return all servers that are known, replicas too; any of them may be gone. Raises StoreError."""
        return await self._trying(self._servers.nodes)

    async def one_on_each(self, key: Callable[[str], str]) -> list[str]:
        """Return names that `key` makes keys of, one for each server. Raises StoreError: see `commands`."""
        names = ["", *map(str, range(1, _PROOFS))]
        parts = await self._trying(self._servers.parts)
        found = (next((name for name in names if part.holds(key(name))), None) for part in parts)
        return [name for name in found if name is not None]

    async def close(self) -> None:
        """Close all connections."""
        await self._servers.close()

    async def _run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Arg],
        beside: Sequence[Command] = (),
        *,
        hints: Sequence[Command],
    ) -> list[Reply]:
        """Run a script, and return its reply and those to the commands `beside` it."""
        along = (*beside, *hints) if self._servers.ordered else beside
        replies = await self._exchange((self.command(script, keys, args), *along))
        found = [self._checked(reply) for reply in replies[: 1 + len(beside)]]
        if hints and not self._servers.ordered:
            await self._hint(hints)
        return found

    async def _hint(self, hints: Sequence[Command]) -> None:
        """Send hints after the commands they are about; a lost hint is no error for the caller."""
        try:
            await self._exchange(hints)
        except StoreError as error:
            self._log_failed("hints were lost", str(error))

    async def _exchange(self, commands: Sequence[Command], block: float = 0) -> list[Reply]:
        """Send commands; from the first script on that a server does not know, send all of them again in full.

        So a hint runs after its script.
        """
        replies = await self._sent(commands, block)
        missed = next((place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)), None)
        if missed is not None:
            replies[missed:] = await self._sent([self._in_full(command) for command in commands[missed:]])
        return replies

    def _in_full(self, command: Command) -> Command:
        """Return a command with a script's text in the place of its digest: that registers the script and runs it."""
        if command[0] != "EVALSHA":
            return command
        return ("EVAL", self._texts[str(command[1])], *command[2:])

    def _sent(self, commands: Sequence[Command], block: float = 0) -> Awaitable[list[Reply]]:
        return self._trying(lambda: self._servers.exchange(commands, held=block > 0), block)

    async def _trying(self, attempt: Callable[[], Awaitable[T]], block: float = 0) -> T:
        """Try something as often as the servers' limit lets it.

        The first failure is logged, and the last.
        """
        limit, loop, until = self._servers.limit, asyncio.get_running_loop(), 0.0
        for tries in count():
            try:
                async with asyncio.timeout(limit.each + block):
                    return await _cancellable(attempt)
            except (*UNREACHED, ResponseError) as error:
                until = until or loop.time() + limit.total
                if limit.total > 0 and passes(error):
                    self._failed = loop.time()
                last = not passes(error) or (tries > 0 and loop.time() >= until)
                if last or not tries:
                    self._log_failed("the store did not answer", _why(error), REACH)
                if last:
                    self._gone(error)
            await self._restore()
            if tries:
                await asyncio.sleep(min(_PAUSE_SECONDS * 2 ** (tries - 1), _LONGEST_PAUSE_SECONDS))
        raise AssertionError

    def _checked(self, reply: Reply) -> Reply:
        if isinstance(reply, RedisError):
            self._refuse(reply)
        return reply

    def _read(self, reply: Reply) -> Reply:
        """Return a reply, None for one that reports an unreadable record."""
        if isinstance(reply, RedisError) and isinstance(refusal_for(reply), SchemaError):
            return None
        return self._checked(reply)

    def _refuse(self, error: RedisError) -> NoReturn:
        refusal = refusal_for(error)
        # The rest of the server's message may quote a record.
        self._log_failed("the store refused a command", str(refusal).partition(": ")[0], refusal.next_step)
        raise refusal from error

    def _gone(self, error: BaseException) -> NoReturn:
        """Raise the error of ours for a failure after the last try."""
        cause = lasting(error)
        if isinstance(cause, SSLCertVerificationError):
            raise StoreRefusedError(
                f"the store's certificate is not trusted: {cause.verify_message}",
                next_step="name the file of its authority at the end of `store.url`: `?ssl_ca_certs=/path/ca.pem`",
            ) from error
        if cause is not None:
            self._refuse(cause)
        if isinstance(error, ResponseError):
            self._refuse(error)
        if _shut_out(error):
            raise StoreRefusedError(
                "the Sentinels refused the password",
                next_step="mend `sentinel_username` and `sentinel_password` in LOCKGATE_STORE_URL, "
                "or leave them out where Sentinels have none",
            ) from error
        if isinstance(error, MasterNotFoundError) and RedisConnectionError.__name__ in str(error):
            raise StoreGoneError(
                "Sentinels do not answer", next_step="start them, or check their addresses in `store.url`"
            ) from error
        if isinstance(error, MasterNotFoundError):
            raise StoreGoneError(
                "no Sentinel knows a primary of the service",
                next_step="check Sentinels and service in `store.url`, or wait for the failover",
            ) from error
        raise StoreGoneError("the store does not answer", next_step="start it, or check `store.url`") from error

    def _log_failed(self, event: str, cause: str, step: str = "") -> None:
        facts = {"subject": "store", "cause": cause, "address": self._address, "step": step}
        _LOGGER.warning(event, extra=facts)

    async def _restore(self) -> None:
        """Take steps that may help; the reason why an embedded server cannot be started again is logged too."""
        try:
            await self._servers.restore()
        except (OperatorError, StoreError) as error:
            self._log_failed("the store could not be started again", str(error), error.next_step)
            raise


async def _cancellable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try something; a cancellation that comes meanwhile ends it.

    The library loses one that comes as it has just sent a request to a Sentinel, by `asyncio.wait_for` of Python 3.11.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        return await attempt()
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


def _cursor(first: int, name: str, at: bytes) -> bytes:
    return f"{first} {name} ".encode() + at


def _read_cursor(cursor: bytes) -> tuple[int, str, bytes]:
    """Return the first slot of the server that a walk has come to, its name, and the cursor there.

    A cursor that no walk returned stands for the begin.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[3]) > _LAST_CURSOR:
        return 0, "", WALKED
    return int(found[1]), found[2].decode(), found[3]


def settled(replies: list[Reply]) -> list[Reply]:
    """Return replies. Raises ResponseError: one of them tells that another server is about to take over."""
    for reply in replies:
        if isinstance(reply, ResponseError) and passes(reply):
            raise reply
    return replies


def passes(error: BaseException) -> bool:
    """Say whether a failure may be over soon, as it is in a failover; a refused password, for one, is not."""
    if lasting(error) is not None or _shut_out(error):
        return False
    if isinstance(error, ResponseError):
        return isinstance(error, _PASSING) or (error.status_code or str(error)).startswith(_PASSING_CODES)
    return isinstance(error, UNREACHED)


def _why(error: Exception) -> str:
    """Return the reason for a missing answer, in none of the library's words, which may quote a record."""
    late = isinstance(error, (RedisTimeoutError, TimeoutError))
    return (
        "it took too long" if late else "there was no connection" if isinstance(error, UNREACHED) else "it is not ready"
    )


def lasting(error: BaseException) -> AuthenticationError | SSLCertVerificationError | None:
    """Return a cause that no further try mends. The library wraps the server's message on connecting."""
    for cause in (error, error.__cause__, error.__context__):
        if isinstance(cause, (AuthenticationError, SSLCertVerificationError)):
            return cause
    return None


def _shut_out(error: BaseException) -> bool:
    """Say whether Sentinels refused a password; the library keeps no more of that than its name."""
    return isinstance(error, MasterNotFoundError) and AuthenticationError.__name__ in str(error)
