"""The server: HTTP/1.1 by uvicorn, which neither follows signals nor keeps callers who dawdle.

uvicorn knows no limit on how long headers take and none on a caller who does not read, so its protocol has both here.
Where all connections are taken, the one that has been idle longest makes room; so opening many keeps nobody out.
"""

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import anyio
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.api.application import make_api
from bot.api.errors import MALFORMED

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from bot.api.services import ApiServices

HEADER_SECONDS: Final = 10.0
"""How long the headers of a request may take, from the first byte or a connection's beginning."""

IDLE_SECONDS: Final = 60
"""How long a connection is kept between two requests."""

WRITE_SECONDS: Final = 30.0
"""How long a caller may read nothing while an answer waits for them."""

LINGER_SECONDS: Final = 2.0
"""How long a caller who was refused may still send their body, so that they read the answer."""

HEADER_BYTES: Final = 32_768
DRAIN_SECONDS: Final = 5


async def serve(services: "ApiServices", began: Callable[[str], None]) -> None:
    """Serve the API until cancelled; then take nothing in, let streams say that they end, and requests be answered.

    `began` is told the address when it is listened at. Raises OSError: it cannot be listened at.
    """
    settings = services.settings
    listening = await asyncio.to_thread(_bound, settings.host, settings.port)
    server = _Server(_config(services), lambda: began(_url(listening)))
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.serve(sockets=[listening]))
        try:
            await asyncio.shield(serving)
        finally:
            services.closing.set()
            server.should_exit = True
            with anyio.CancelScope(shield=True):
                await serving


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024)
    # Head and body are written apart: without this the body waits 40 ms for the caller to acknowledge the head. asyncio
    # does it only for sockets that name their protocol, which these do not.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _config(services: "ApiServices") -> uvicorn.Config:
    class Protocol(_Guarded):
        most = services.settings.most_connections

    return uvicorn.Config(
        make_api(services),
        http=Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
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
    """A connection that ends where its caller dawdles; `most` is how many there are at a time."""

    most: int

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # pyright: ignore[reportArgumentType] - uvicorn's own arguments, as they come
        self._since: float = 0.0
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's
        """Take a connection, if there is room or can be."""
        others: list[_Guarded] = [one for one in self.connections if isinstance(one, _Guarded)]
        super().connection_made(transport)
        if len(others) >= self.most:
            min((one for one in others if one.idle), key=_Guarded.used, default=self).transport.abort()
        self._since = self.loop.time()
        self._expect_headers()

    @property
    def idle(self) -> bool:
        """Whether nothing that was asked for on this connection is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or bool(cycle.response_complete)

    def used(self) -> float:
        """Return when something came on this connection last, on the loop's clock in seconds."""
        return self._since

    def connection_lost(self, exc: Exception | None) -> None:
        """Let a connection go."""
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; headers that are not there as a whole are waited for, for a while."""
        super().data_received(data)
        self._since = self.loop.time()
        if self.conn.their_state is not h11.IDLE:
            self._unexpect_headers()
        elif self._headers_due is None:
            self._expect_headers()

    def on_response_complete(self) -> None:
        """End a request; a body that nobody reads any more may still come for a moment."""
        if self.conn.their_state is h11.SEND_BODY:
            self._headers_due = self.loop.call_later(LINGER_SECONDS, self._end)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait until the caller reads, for a while."""
        super().pause_writing()
        self._reading_due = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing was asked for a while."""
        self._end()

    def send_400_response(self, msg: str) -> None:
        """Tell in the API's own shape that a request cannot be read."""
        del msg
        self._stop_timers()
        body = MALFORMED.body("")
        headers = {**MALFORMED.headers, "content-length": str(len(body)), "connection": "close"}
        try:
            for event in (
                h11.Response(status_code=MALFORMED.status, headers=[*headers.items()], reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            # An answer is being written already.
            self.transport.abort()
        self._end()

    def _expect_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADER_SECONDS, self._end)

    def _unexpect_headers(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _stop_timers(self) -> None:
        self._unexpect_headers()
        if self._reading_due is not None:
            self._reading_due.cancel()

    def _end(self) -> None:
        """End the connection, also where its caller never reads what was written."""
        self.transport.close()
        self._reading_due = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
