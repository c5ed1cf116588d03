"""A connection that many requests share: replies come in the order of the requests.

The library connects, encrypts, authenticates and names the connection. From then on it is read here: all bytes that
have arrived are read at once, for all requests, where the library reads reply by reply. A connection that listens to a
channel hears published messages between the replies.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from bot.store.servers.connection import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio.connection import AbstractConnection

_CLOSED: Final = "the connection to the server is closed"

_MESSAGE: Final = b"message"
"""The beginning of a published message."""


@dataclass(slots=True)
class _Question:
    """A request that waits for `count` replies."""

    count: int
    answer: "asyncio.Future[list[Reply]]"
    replies: list[Reply] = field(default_factory=list[Reply])


class SharedConnection(asyncio.Protocol):
    """A connection to a server, taken over from the library when that has made it."""

    def __init__(
        self,
        made: "AbstractConnection",
        closed: "Callable[[AbstractConnection], None]",
        heard: "Callable[[bytes], None] | None" = None,
    ) -> None:
        """Take over a connection that the library has just made, in a running loop, and give it back when closed.

        `heard` gets the messages of the channel that this connection listens to.
        """
        # The library keeps these to itself. It is kept, as its streams would close the transport when they go.
        self.made: Final = made
        there = cast("Any", made)
        self._closed = closed
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = there._writer.transport  # noqa: SLF001 - see above
        self._before: asyncio.BaseProtocol = self._transport.get_protocol()
        self._reader = hiredis.Reader(replyError=there._parser.parse_error)  # noqa: SLF001 - see above
        self._asked = deque[_Question]()
        self._lost = asyncio.Event()
        self._retired = False
        self._transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether it takes more requests."""
        return not self._retired and not self._transport.is_closing()

    def ask(self, packed: bytes, count: int) -> "asyncio.Future[list[Reply]]":
        """Send packed commands, and return a future of their `count` replies, errors of the server among them.

        The future raises the library's error where a server does not answer.
        """
        question = _Question(count, self._loop.create_future())
        self._asked.append(question)
        self._transport.write(packed)
        return question.answer

    def retire(self) -> None:
        """Take no more requests, and close when none waits for an answer any more."""
        self._retired = True
        if all(one.answer.done() for one in self._asked):
            self._transport.abort()

    async def close(self) -> None:
        """Close at once, and wait until that is done; waiting callers get an error."""
        self._transport.abort()
        await self._lost.wait()

    def data_received(self, data: bytes) -> None:
        """Give each request its replies."""
        reader, asked = self._reader, self._asked
        reader.feed(data)
        try:
            # `False` stands for an incomplete reply; no reply of this protocol is one.
            while (reply := reader.gets()) is not False:
                if self._heard is not None and _published(reply):
                    self._heard(reply[2])
                    continue
                question = asked[0]
                question.replies.append(reply)
                if len(question.replies) == question.count:
                    asked.popleft()
                    _settle(question)
        except (hiredis.ProtocolError, IndexError, ValueError):
            # The server sent an unexpected or unreadable reply.
            self._transport.abort()
        if self._retired:
            self.retire()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all waiting callers."""
        asked, self._asked = self._asked, deque[_Question]()
        for question in asked:
            if not question.answer.done():
                question.answer.set_exception(RedisConnectionError(_CLOSED))
        self._before.connection_lost(exc)
        there = cast("Any", self.made)
        there._reader = there._writer = None  # noqa: SLF001 - see above
        self._lost.set()
        self._closed(self.made)


def _published(reply: Reply) -> bool:
    """Say whether a reply is a published message and not an answer."""
    return isinstance(reply, list) and reply[:1] == [_MESSAGE]


def _settle(question: _Question) -> None:
    """Answer a request, or raise where a reply says that the server takes none now."""
    if question.answer.done():
        return
    for reply in question.replies:
        if isinstance(reply, RedisError) and not isinstance(reply, ResponseError):
            question.answer.set_exception(reply)
            return
    question.answer.set_result(question.replies)
