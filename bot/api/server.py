"""The server: HTTP/1.1 by uvicorn, which neither follows signals nor keeps callers who dawdle.

uvicorn knows no limit on how long headers take and none on a caller who does not read, so its protocol has both here.
If all connections are taken, the one that has been idle longest makes room; so opening many keeps no caller out.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final, cast

import anyio
import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.api.application import make_api
from bot.api.entrance.caller_patience import PATIENCE, CallerPatience
from bot.api.errors import MALFORMED
from bot.api.mcp_server.mount import McpMount

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from bot.api.services import ApiServices

_HEADER_BYTES: Final = 32_768
_BACKLOG: Final = 1024


async def serve(
    services: "ApiServices",
    began: Callable[[str], None],
    patience: CallerPatience = PATIENCE,
    framework: FastAPI | None = None,
    *,
    mcp: McpMount | None = None,
) -> None:
    """Serve the API until cancelled; then accept nothing, let streams announce their end, and answer the open requests.

    `began` gets the address when it is listened at. Raises OSError: it cannot be listened at.
    """
    settings = services.settings
    listening = await asyncio.to_thread(bound, settings.host, settings.port)

    class Protocol(_Guarded):
        most = settings.most_connections
        waits = patience
        standing: ClassVar[OrderedDict[_Guarded, None]] = OrderedDict()

    mcp = mcp or McpMount(services)
    api = make_api(services, mcp, patience, framework)
    server = _Server(_config(api, Protocol, patience), lambda: began(_url(listening)))
    async with asyncio.TaskGroup() as tasks:
        mounted = tasks.create_task(mcp.serve())
        serving = tasks.create_task(server.serve(sockets=[listening]))
        try:
            await asyncio.shield(serving)
        finally:
            services.closing.set()
            server.should_exit = True
            with anyio.CancelScope(shield=True):
                await serving
            mounted.cancel()


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Raises OSError: it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Head and body are written apart. Without this the body waits 40 ms for the caller to acknowledge the head. asyncio
    # sets it only for sockets that name their protocol, and these do not.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _config(api: object, protocol: "type[_Guarded]", patience: CallerPatience) -> uvicorn.Config:
    return uvicorn.Config(
        api,  # pyright: ignore[reportArgumentType] - uvicorn's own types of ASGI are narrower than ASGI
        http=protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        # Errors are logged at the entrance; about callers who cannot speak HTTP there is nothing to tell.
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=patience.idle,
        timeout_graceful_shutdown=patience.ending,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )


class _Server(uvicorn.Server):
    """A server that leaves signals to `lockgate run`, and tells when it began."""

    def __init__(self, config: uvicorn.Config, began: Callable[[], None]) -> None:
        super().__init__(config)
        self._began = began

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._began()


class _Guarded(H11Protocol):
    """A connection that ends where its caller dawdles; `most` is how many there are at a time.

    `standing` are those of a server, the one on which something came last at the end.
    """

    most: int
    waits: CallerPatience
    standing: ClassVar["OrderedDict[_Guarded, None]"]

    _awaited: object = None
    """The state of the caller whose next bytes are awaited, while no request of theirs is being answered."""
    _sending_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing that was asked for on this connection is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or bool(cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's
        """Take a connection, if there is room or can be."""
        super().connection_made(transport)
        self._await()
        self.standing[self] = None
        if len(self.standing) > self.most:
            # Itself, where nothing else is idle. It counts no more at once: many may come before it is gone.
            ended = next(one for one in self.standing if one.idle)
            del self.standing[ended]
            ended.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        self.standing.pop(self, None)
        for timer in (self._sending_due, self._reading_due):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take received data; the missing part of a request is waited for, for a while."""
        if self in self.standing:
            self.standing.move_to_end(self)
        super().data_received(data)
        self._await()

    def on_response_complete(self) -> None:
        """End a request; the rest of it that is no longer read may still come for a moment."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._end()
        elif self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]:
            self._await()

    def pause_writing(self) -> None:
        """Wait until the caller reads, for a while."""
        super().pause_writing()
        self._reading_due = self.loop.call_later(self.waits.reading, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._reading_due is not None and not self.transport.is_closing():
            self._reading_due.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing was asked for a while."""
        self._end()

    def send_400_response(self, msg: str) -> None:
        """Tell in the API's own shape that a request cannot be read."""
        del msg
        body = MALFORMED.body("")
        headers = {**MALFORMED.headers, "content-length": str(len(body)), "connection": "close"}
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            answer = h11.Response(status_code=MALFORMED.status, headers=[*headers.items()], reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        # Else an answer is on its way, and is cut short.
        self._end()

    def _await(self) -> None:
        """Give the caller some time for all of their next bytes."""
        awaited = self.conn.their_state if self.idle else None
        if awaited is self._awaited:
            return
        self._awaited = awaited
        if self._sending_due is not None:
            self._sending_due.cancel()
        self._sending_due = None
        if awaited is h11.IDLE:
            self._sending_due = self.loop.call_later(self.waits.headers, self._end)
        elif awaited is h11.SEND_BODY:
            # The rest of a body that was answered already.
            self._sending_due = self.loop.call_later(self.waits.rest, self._end)

    def _end(self) -> None:
        """End the connection, also where its caller never reads the written bytes."""
        self.transport.close()
        self._reading_due = self.loop.call_later(self.waits.rest, self.transport.abort)
