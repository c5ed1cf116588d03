"""The events of a session as they happen: a stream that goes on where it broke off.

The number of an event is its place in the session's log. A stream tells each event once, in order: after a lost
connection it asks for the events after the last one. It ends for good where the token may not read the
session any more; that the API starts anew does not end it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Self

import httpx2

from lockgate.errors import LockgateClientError, LogTruncatedError, StreamEndedError, UnreachableError
from lockgate.retries import Retry, for_now
from lockgate.shapes import LogEnd, SessionEvent, StreamEnd
from lockgate.transport import Query, Transport, read, unanswered

_END: Final = "end"
_RESTART: Final = "restart"
_TRUNCATED: Final = "log_truncated"


class EventStream:
    """Iterates over the events of a session, over as many connections as it takes.

    `last` is the number of the last event returned: a program that stores it continues from there after a restart. Used
    as a context manager, it gives its connection back at the end of the block. To wait for an event may be given up by
    a timeout or a cancellation: the next wait goes on after `last`.
    """

    def __init__(self, transport: Transport, path: str, query: Query, after: int) -> None:
        self.last = after
        self._transport = transport
        self._path = path
        self._query = query
        self._events = self._all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent:
        try:
            return await anext(self._events)
        except (asyncio.CancelledError, LogTruncatedError):
            # Who gave this wait up, as by a timeout, ended the generator and not the stream.
            self._events = self._all()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream."""
        await self._events.aclose()

    async def _all(self) -> AsyncGenerator[SessionEvent]:
        retry = self._transport.retry()
        while True:
            problem: LockgateClientError = UnreachableError("the API closed the stream")
            try:
                async with aclosing(self._connected(retry)) as events:
                    async for event in events:
                        yield event
            except httpx2.RequestError as error:
                problem = unanswered(error)
            except LockgateClientError as error:
                problem = error
            await retry.after(problem, again=for_now(problem, repeatable=True))

    async def _connected(self, retry: Retry) -> AsyncGenerator[SessionEvent]:
        """Tell what one connection tells, until it ends."""
        query = {**self._query, "after": self.last}
        async with self._transport.listening(self._path, query) as source:
            with retry.standing():
                async for frame in source:
                    retry.anew()
                    if frame.event == _END:
                        reason = read(StreamEnd, frame.data).reason
                        if reason != _RESTART:
                            raise StreamEndedError(reason)
                        return
                    if frame.event == _TRUNCATED:
                        end = read(LogEnd, frame.data)
                        self.last = end.last
                        raise LogTruncatedError(end.after, end.last)
                    event = read(SessionEvent, frame.data)
                    if event.seq > self.last:
                        self.last = event.seq
                        yield event
