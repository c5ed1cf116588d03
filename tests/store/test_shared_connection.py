"""The connection that all exchanges of a process share: each gets its own replies, whatever becomes of the others.

A real server answers where all is well, and a small scripted one where servers fail: it greets, and then does to the
bytes of each connection what a test tells it to.
"""

import asyncio
import gc
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio.connection import Connection as LibraryConnection
from redis.exceptions import BusyLoadingError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from bot.core.errors import StoreGoneError
from bot.store.servers.address import read_address
from bot.store.servers.connection import Connection
from bot.store.servers.server import Server, SingleServer, connecting, single_pool
from tests.fleets import Served
from tests.store.world import fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.store.servers.connection import Command, Reply

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("connections are to one server")]

Talk = Callable[[StreamReader, StreamWriter], Awaitable[None]]
"""What a scripted server does with one connection, once it is greeted."""

_PATIENCE = 60.0


def to(url: str, name: str = "p-test") -> Server:
    """Return what asks a server."""
    return Server(single_pool(connecting(read_address(url), timeout=_PATIENCE, name=name)))


class Deaf(SingleServer):
    """A server whose library loses a cancellation, as `asyncio.wait_for` of Python 3.11 may."""

    async def exchange(self, commands: "Sequence[Command]", *, held: bool = False) -> "list[Reply]":
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return [b"late" for _ in commands]


@asynccontextmanager
async def asking(url: str, name: str = "p-test") -> AsyncGenerator[Server]:
    """Yield what asks a server, for as long as a test needs it."""
    server = to(url, name)
    try:
        yield server
    finally:
        await server.close()


async def asked(reader: StreamReader) -> list[bytes]:
    """Return the words of the next command."""
    count = int((await reader.readuntil())[1:])
    words = list[bytes]()
    for _ in range(count):
        size = int((await reader.readuntil())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return words


class Scripted:
    """A server that does to each connection what the next of its talks says; to the others what the last says."""

    def __init__(self, *talks: Talk) -> None:
        self.talks = list(talks)
        self.url = ""
        self.greeted = 0
        self.open = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                talk = self.talks.pop(0) if len(self.talks) > 1 else self.talks[0]
                await self.greet(reader, writer)
                await talk(reader, writer)
        finally:
            self.open -= 1
            writer.close()

    async def greet(self, reader: StreamReader, writer: StreamWriter) -> None:
        assert (await asked(reader))[:2] == [b"CLIENT", b"SETNAME"]
        self.greeted += 1
        writer.write(b"+OK\r\n")


@asynccontextmanager
async def scripted(*talks: Talk) -> AsyncGenerator[tuple[Scripted, Server]]:
    """Run a scripted server, and yield it with what asks it."""
    script = Scripted(*talks)
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0) as listening:
        script.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        server = to(script.url)
        try:
            yield script, server
        finally:
            await server.close()
            async with asyncio.timeout(_PATIENCE):
                while script.open:  # noqa: ASYNC110 - each connection ends by itself
                    await asyncio.sleep(0.01)


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    """Answer each command with its last word."""
    while True:
        *_, word = await asked(reader)
        writer.write(b"$%d\r\n%s\r\n" % (len(word), word))


def saying(after: bytes, *, hold: bool = False) -> Talk:
    """Return a talk that waits for two commands, says something and hangs up, or keeps the line if `hold`."""

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        await asked(reader)
        await asked(reader)
        writer.write(after)
        await writer.drain()
        if hold:
            await reader.read()

    return talk


def both(server: Server, *words: str) -> "list[asyncio.Task[list[Reply]]]":
    """Ask for several words at once, each by itself."""
    return [asyncio.create_task(server.exchange((("ECHO", word),))) for word in words]


async def ended(tasks: "list[asyncio.Task[list[Reply]]]") -> list[Any]:
    """Return what became of each."""
    async with asyncio.timeout(_PATIENCE):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def connections(server: Server, name: str) -> int:
    """Return how many connections of a name the server knows."""
    (listing,) = await server.exchange((("CLIENT", "LIST"),))
    return int(listing.count(b" name=%s " % name.encode()))


async def test_many_exchanges_share_one_connection_and_each_has_its_own_replies(server: Served) -> None:
    async with asking(server.url, "p-many") as asks:

        async def one(number: int) -> None:
            words: list[Command] = [("ECHO", f"{number}.{part}") for part in range(1 + number % 5)]
            assert await asks.exchange(words) == [f"{number}.{part}".encode() for part in range(1 + number % 5)]

        async with asyncio.TaskGroup() as together:
            for number in range(200):
                together.create_task(one(number))
        assert await connections(asks, "p-many") == 1


async def test_an_exchange_of_nothing_takes_nobody_elses_reply(server: Served) -> None:
    async with asking(server.url) as asks, asyncio.timeout(_PATIENCE):
        assert await asks.exchange(()) == []
        assert await ended(both(asks, "a", "b")) == [[b"a"], [b"b"]]


async def test_large_questions_and_replies_pass_whole_and_others_wait_behind_them(server: Served) -> None:
    large = "x" * (32 << 20)
    async with asking(server.url) as asks:
        before, big, after = both(asks, "before", large, "after")
        assert await ended([before, after, big]) == [[b"before"], [b"after"], [large.encode()]]


async def test_what_a_server_holds_has_a_connection_of_its_own(server: Served) -> None:
    async with asking(server.url, "p-held") as asks:
        for _ in range(3):
            name = fresh()
            waits = asyncio.create_task(asks.exchange((("BLPOP", name, "0"), ("ECHO", "later")), held=True))
            assert await ended(both(asks, "now")) == [[b"now"]]
            assert not waits.done()
            await asks.exchange((("RPUSH", name, "x"),))
            assert await ended([waits]) == [[[name.encode(), b"x"], b"later"]]
        assert await connections(asks, "p-held") == 2


async def test_a_cancellation_cuts_nobody_else_off_and_shifts_no_reply() -> None:
    heard, go = asyncio.Event(), asyncio.Event()

    async def late(reader: StreamReader, writer: StreamWriter) -> None:
        words = [(await asked(reader))[-1] for _ in "abcd"]
        heard.set()
        await go.wait()
        writer.write(b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        await echo(reader, writer)

    async with scripted(late, echo) as (script, server):
        tasks = both(server, "a", "b", "c", "d")
        await asyncio.wait_for(heard.wait(), _PATIENCE)
        tasks[1].cancel()
        await asyncio.sleep(0)
        # It is on another connection, and does not wait for those before.
        assert await ended(both(server, "e")) == [[b"e"]]
        go.set()
        first, gone, *others = await ended(tasks)
        assert [first, *others] == [[b"a"], [b"c"], [b"d"]]
        assert isinstance(gone, asyncio.CancelledError)
        await _eventually(lambda: script.open == 1)
        assert script.greeted == 2


async def test_cancellations_leave_no_connections_behind() -> None:
    async def hang(reader: StreamReader, _writer: StreamWriter) -> None:
        await reader.read()

    async with scripted(hang) as (script, server):
        for number in range(1, 21):
            (task,) = both(server, "x")
            await _eventually(lambda number=number: script.greeted == number)
            task.cancel()
            await asyncio.wait({task})
        assert script.greeted == 20
        await _eventually(lambda: not script.open)
        gc.collect()
        assert sum(isinstance(one, LibraryConnection) for one in gc.get_objects()) <= 2


async def test_a_server_that_hangs_before_it_greets_is_left_in_time_and_asked_again() -> None:
    class Deaf(Scripted):
        async def greet(self, reader: StreamReader, writer: StreamWriter) -> None:
            if self.open == 1 and not self.greeted:
                self.greeted = 0
                await reader.read()
                raise ConnectionError
            await super().greet(reader, writer)

    script = Deaf(echo)
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0) as listening:
        server = to(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await server.exchange((("ECHO", "x"),))
        script.greeted = 1
        assert await ended(both(server, "x", "y")) == [[b"x"], [b"y"]]
        await server.close()
        await _eventually(lambda: not script.open)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"$5\r\nhal",
        b"?what is this\r\n",
        b"*-5\r\n",
        b"$99999999999999999999\r\n",
        b"-MOVED nonsense\r\n",
        b"-ERR \xff\xfe\r\n$1",
    ],
)
async def test_a_connection_that_breaks_or_talks_nonsense_ends_and_the_next_one_is_made(said: bytes) -> None:
    async with scripted(saying(said), echo) as (_, server):
        first, second = await ended(both(server, "a", "b"))
        assert isinstance(first, (RedisConnectionError, list))
        assert isinstance(second, RedisConnectionError)
        assert await ended(both(server, "c")) == [[b"c"]]


async def test_what_is_said_beyond_the_answers_ends_the_connection() -> None:
    """A reply too many would be taken for the next one's."""
    async with scripted(saying(b"$1\r\na\r\n$1\r\nb\r\n$6\r\nsecret\r\n", hold=True), echo) as (_, server):
        assert await ended(both(server, "a", "b")) == [[b"a"], [b"b"]]
        assert await ended(both(server, "c")) == [[b"c"]]


async def test_a_server_that_loads_is_told_of_by_whom_it_answers_so_alone() -> None:
    loading = b"-LOADING the dataset is in memory soon\r\n$1\r\nb\r\n"
    async with scripted(saying(loading, hold=True)) as (_, server):
        first, second = await ended(both(server, "a", "b"))
        assert isinstance(first, BusyLoadingError)
        assert second == [b"b"]


async def test_other_errors_are_replies(server: Served) -> None:
    async with asking(server.url) as asks:
        wrong, right = await asks.exchange((("NO-SUCH-COMMAND",), ("ECHO", "x")))
    assert isinstance(wrong, ResponseError)
    assert right == b"x"


async def test_a_server_that_takes_no_more_clients_is_one_that_does_not_answer() -> None:
    class Full(Scripted):
        async def greet(self, reader: StreamReader, writer: StreamWriter) -> None:
            await asked(reader)
            writer.write(b"-ERR max number of clients reached\r\n")

    async with await asyncio.start_server(Full(echo).serve, "127.0.0.1", 0) as listening:
        server = to(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        with pytest.raises(RedisConnectionError):
            await server.exchange((("ECHO", "x"),))
        await server.close()


async def test_a_server_that_hangs_up_behind_its_greeting_is_noticed_at_once() -> None:
    async def leave(_reader: StreamReader, _writer: StreamWriter) -> None:
        return

    async with scripted(leave, echo) as (_, server):
        (first,) = await ended(both(server, "a"))
        assert isinstance(first, RedisConnectionError)
        assert await ended(both(server, "b")) == [[b"b"]]


async def test_a_server_that_is_no_part_of_the_store_any_more_gets_no_connection() -> None:
    """Also not the one that was being made at that moment: nobody would ever close it."""
    go = asyncio.Event()

    class Slow(Scripted):
        async def greet(self, reader: StreamReader, writer: StreamWriter) -> None:
            await go.wait()
            await super().greet(reader, writer)

    script = Slow(echo)
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0) as listening:
        server = to(f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        tasks = both(server, "a")
        await _eventually(lambda: script.open == 1)
        await server.retire()
        go.set()
        assert isinstance((await ended(tasks))[0], RedisConnectionError)
        assert isinstance((await ended(both(server, "b")))[0], RedisConnectionError)
        await _eventually(lambda: not script.open)


async def _eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not true():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def test_a_cancellation_that_the_library_loses_still_ends_a_request() -> None:
    """Otherwise a loop that asks now and then goes on, and its process never ends."""
    connection = Connection(Deaf(to("redis://127.0.0.1:1"), timeout=_PATIENCE), {}, name="p-test")
    asking = asyncio.create_task(connection.commands(("PING",)))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_limit_that_the_library_loses_still_ends_a_request() -> None:
    connection = Connection(Deaf(to("redis://127.0.0.1:1"), timeout=0.01), {}, name="p-test")
    with pytest.raises(StoreGoneError):
        await connection.commands(("PING",))
