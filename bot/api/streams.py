"""Streams of a session's events by Server-Sent Events, as they happen.

The id of an event is its seq, and a stream begins behind the one that its reader names. So it tells each event once,
also after a broken connection. A slow reader holds nothing here: it gets events from the last look, or from the log.

Labels gate a stream as they gate everything else (laws `no_write_down`, `no_read_up`). Before an event is sent, the
present token and its clearance are checked, and the session's record as it was read after the events. If the session
has risen above its reader, or the token is no longer valid, one constant event ends the stream: its bytes depend on
nothing. Events that were read together with the rise are not told.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import Response

from bot.access.tokens import ApiCaller
from bot.api.errors import BUSY, ApiRefusedError
from bot.api.events import EventChoice
from bot.api.services import ApiServices
from bot.api.watching import PAGE, SLOW_LOOK_SECONDS, Frame, RecentEvent, WatchedSession, Watching, WatchingParts
from bot.core.errors import SchemaError, StoreError
from bot.operations.reading import ReadingKind
from bot.operations.told_events import EventTeller
from bot.sessions.installation.losses import LOG_TRUNCATED
from bot.sessions.models import SessionState
from bot.sessions.visibility import sees
from policy.labels import Label

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MEDIA_TYPE: Final = "text/event-stream"

UNAVAILABLE: Final = b'event: end\ndata: {"reason":"unavailable"}\n\n'
"""The end of a stream whose reader may not know of the session any more, for any cause."""

RESTART: Final = b'event: end\ndata: {"reason":"restart"}\n\n'
"""The end of a stream because its process ends: its reader asks again."""

BEAT: Final = b":\n\n"
"""The comment that confirms only that a stream stands."""

_HEADERS: Final = MappingProxyType({"x-accel-buffering": "no"})
"""The headers that keep proxies from holding a stream back."""

_PIECE: Final = 64 * 1024
"""How many bytes are sent at once, unless one event has more."""


def truncated(after: int, last: int) -> bytes:
    """Return the frame for a reader who knows later events than the log has: from here on it goes on behind `last`."""
    told = json.dumps({"after": after, "last": last}, separators=(",", ":"))
    return f"id: {last}\nevent: {LOG_TRUNCATED}\ndata: {told}\n\n".encode("ascii")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A program that asks for the events of a session behind one."""

    caller: ApiCaller
    choice: EventChoice
    after: int


@dataclass(frozen=True, slots=True)
class _KnownReader:
    """The clearance of a token, None if it is no longer valid, with the policy and the tokens by which it was found."""

    policy: object
    live: object
    reader: Label | None


class EventStreams:
    """All streams of this process; how many there may be is counted, and one program has half of them at most."""

    def __init__(self, services: ApiServices, teller: EventTeller) -> None:
        self.services = services
        self.teller = teller
        slow_look = min(SLOW_LOOK_SECONDS, services.settings.heartbeat_seconds)
        self.watching = Watching(WatchingParts(services.store, services.reloader, services.closing, slow_look))
        self._open = dict[str, int]()
        self._readers = dict[str, _KnownReader]()

    def reader(self, caller: ApiCaller) -> Label | None:
        """Return the present clearance of a program, None if the token that it showed is no longer valid.

        Found once as long as nothing changes: all streams of a program ask for it with each event.
        """
        services, token = self.services, caller.token
        policy, live = services.gate.document, services.reloader.live_tokens
        known = self._readers.get(token.id)
        if known is None or known.policy is not policy or known.live is not live:
            now = services.tokens.still(caller)
            known = _KnownReader(policy, live, None if now is None else services.tokens.reader(now))
            self._readers[token.id] = known
        return known.reader if token.live(services.store.tokens.now_ms()) else None

    def response(self, state: SessionState, asked: StreamRequest) -> Response:
        """Return the answer that streams a session's events; its reader may know of it, and that was noted.

        Raises ApiRefusedError: there are as many streams as there may be.
        """
        most, own = self.services.settings.most_streams, self._open.get(asked.caller.principal, 0)
        if sum(self._open.values()) >= most or own >= (most + 1) // 2:
            raise ApiRefusedError(BUSY)
        return _StreamResponse(lambda write: self._follow(state, asked, write))

    async def _follow(self, state: SessionState, asked: StreamRequest, write: "Tell") -> None:
        principal = asked.caller.principal
        self._open[principal] = self._open.get(principal, 0) + 1
        try:
            async with self.watching.session(state) as watched:
                await EventStream(self, watched, state, asked).tell(write)
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]
                self._readers.pop(asked.caller.token.id, None)


Tell = Callable[[bytes], Awaitable[None]]
"""Sends bytes to a reader, and waits until there is room for more."""


class EventStream:
    """The stream of one session to one reader."""

    def __init__(
        self, streams: EventStreams, watched: WatchedSession, state: SessionState, asked: StreamRequest
    ) -> None:
        self._streams = streams
        self._services = streams.services
        self._watched = watched
        self._sid = state.sid
        self._asked = asked
        self._after = asked.after
        self._behind = True
        self._noted = state

    async def tell(self, write: Tell) -> None:
        """Tell events until the stream ends."""
        now, beat = self._services.clock.monotonic, self._services.settings.heartbeat_seconds
        number, told_at = self._watched.latest.number, now()
        await write(BEAT)
        while not self._services.closing.is_set():
            before = self._after
            told = await self._more()
            if told is None:
                await write(UNAVAILABLE)
                return
            if not told and now() - told_at >= beat:
                told = [BEAT]
            for piece in _pieces(told):
                await write(piece)
                told_at = now()
            if not self._behind or self._after == before:
                number = (await self._watched.next(number)).number
        await write(RESTART)

    async def _more(self) -> list[bytes] | None:
        """Return the frames to send now, None if nothing may be told any more."""
        try:
            return await self._page() if self._behind else await self._recent()
        except SchemaError:
            # Whose it is cannot be told, so it is as if it were not there.
            return None
        except StoreError:
            self._behind = True
            return []

    async def _recent(self) -> list[bytes] | None:
        """Return the frames of the looks since the last time."""
        look, events = self._watched.latest, self._watched.recent(self._after)
        if events is None:
            self._behind = True
            return await self._page()
        if not look.serves:
            return []
        return await self._told(look.state, events)

    async def _page(self) -> list[bytes] | None:
        """Return a page of frames from the log: the last look does not reach back to there."""
        events, state = await self._services.store.sessions.news(self._sid, after=self._after, limit=PAGE)
        if not await self._services.reloader.current():
            return []
        told = await self._told(state, map(RecentEvent.of, events))
        self._behind = len(events) == PAGE
        if told is not None and state is not None and self._after > state.seq:
            told.append(truncated(self._after, state.seq))
            self._after = state.seq
        return told

    async def _told(self, state: SessionState | None, events: Iterable[RecentEvent]) -> list[bytes] | None:
        reader, principal = self._streams.reader(self._asked.caller), self._asked.caller.principal
        if reader is None or state is None or not sees(state, principal, reader):
            return None
        if (self._noted.taint, self._noted.inbox_label) != (state.taint, state.inbox_label):
            await self._services.reading.noted(principal, state, ReadingKind.STREAM)
            self._noted = state
        found = list[bytes]()
        for one in events:
            self._after = one.event.seq
            if one.event.generation == state.generation and self._asked.choice.takes(one.event):
                frame = self._frame(state, one, reader)
                if frame is not None:
                    found.append(frame)
        return found

    def _frame(self, state: SessionState, one: RecentEvent, reader: Label) -> bytes | None:
        """Return an event as readers of a label are sent it; made once as long as the same policy is in force."""
        made, policy = one.frames.get(reader), self._services.gate.document
        if made is None or made.by is not policy:
            told = self._streams.teller.told(state, one.event, reader)
            text = None if told is None else json.dumps(told, separators=(",", ":"))
            made = Frame(policy, None if text is None else f"id: {one.event.seq}\ndata: {text}\n\n".encode("ascii"))
            one.frames[reader] = made
        return made.sent


class _StreamResponse(Response):
    """An answer that goes on until it ends or its reader is gone."""

    def __init__(self, told: Callable[[Tell], Awaitable[None]]) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers=_HEADERS)
        del self.headers["content-length"]
        self._told = told

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send it."""
        del scope
        answer = send
        await answer({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def tell(piece: bytes) -> None:
            await answer({"type": "http.response.body", "body": piece, "more_body": True})

        async def until_told() -> None:
            await self._told(tell)
            await answer({"type": "http.response.body", "body": b""})
            both.cancel_scope.cancel()

        async with anyio.create_task_group() as both:
            # In a task of its own, so that an event does not wake all layers around this answer.
            both.start_soon(until_told)
            while (await receive())["type"] != "http.disconnect":
                pass
            both.cancel_scope.cancel()


def _pieces(frames: Iterable[bytes]) -> Iterable[bytes]:
    """Yield frames together, as many as are sent at once."""
    piece = bytearray()
    for frame in frames:
        if piece and len(piece) + len(frame) > _PIECE:
            yield bytes(piece)
            piece.clear()
        piece += frame
    if piece:
        yield bytes(piece)
