"""MCP over HTTP: connections that last from `initialize` to their end, and requests that stand by themselves.

The entrance is before it, as before every route: each request shows its token. A connection (`Mcp-Session-Id`) belongs
to one token; of another one's its id is as one that never was. A token has so many at a time, and each ends when it was
not used for a while. Answers are JSON: nothing is sent between requests, so there is no stream to follow.

A request of a protocol without connections is served as from an agent that may have been told anything its token may
read. `server/discover` names the protocols that have connections, so that clients choose one of those.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.runner import serve_loop
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import DiscoverResult, RequestParams
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from bot.api.entrance.entrance import Message, Receive, Scope, Send
from bot.api.errors import BUSY, NO_CONNECTION, UNAVAILABLE, ApiRefusedError
from bot.api.mcp_server.connection import AgentConnection, McpLimits
from bot.api.mcp_server.kept_taints import KeptTaints, TaintKey
from bot.api.mcp_server.protocol import Context, mcp_server
from bot.api.mcp_server.served import ServedTools
from bot.api.requests import ASKED, ApiRequest
from bot.api.services import ApiServices
from channels.port import VaultError

_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"
_BROKE: Final = "a connection of MCP broke"
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    """A connection that stands, and the id of the token it belongs to."""

    owner: str
    transport: StreamableHTTPServerTransport


class McpEndpoint:
    """Serves MCP to programs that the entrance let in."""

    def __init__(self, services: ApiServices, limits: McpLimits) -> None:
        """Serve it with these services, while `running`."""
        self._services, self._limits = services, limits
        self._server = mcp_server(ServedTools(services), _asked)
        self._server.add_request_handler("server/discover", RequestParams, self._discovered)
        largest = services.settings.most_body_bytes
        self._stateless = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=largest
        )
        self._taints = KeptTaints(services.vault)
        self._open = dict[str, _OpenConnection]()
        self._group: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve in a block; in the end all connections are gone."""
        async with self._stateless.run(), anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                self._open.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises ApiRefusedError: it is about no connection of its own, or takes too long."""
        with anyio.move_on_after(self._limits.answer) as due:
            await self._answer(scope, receive, send)
        if due.cancelled_caught:
            raise ApiRefusedError(UNAVAILABLE)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get(_VERSION, HANDSHAKE_PROTOCOL_VERSIONS[0]) not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._stateless.handle_request(scope, receive, send)
            return
        owner, named = cast("ApiRequest", scope[ASKED]).caller.token.id, headers.get(_SESSION)
        if named is None:
            await self._begin(owner, scope, receive, send)
            return
        found = self._open.get(named)
        if found is None or found.owner != owner:
            with _vaulted():
                await self._taints.lost(TaintKey(owner, named))
            raise ApiRefusedError(NO_CONNECTION)
        await found.transport.handle_request(scope, receive, send)
        if found.transport.is_terminated:
            await self._end(named)
            with _vaulted():
                await self._taints.ended(TaintKey(owner, named))

    async def _begin(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin a connection by the request that opens it; one that opens none leaves nothing behind."""
        if sum(one.owner == owner for one in self._open.values()) >= self._limits.most:
            raise ApiRefusedError(BUSY)
        name = self._services.ids.secret()
        key = TaintKey(owner, name)
        with _vaulted():
            connection = AgentConnection(await self._taints.inherited(key), partial(self._taints.keep, key))
        transport = StreamableHTTPServerTransport(name, is_json_response_enabled=True, idle_timeout=self._limits.idle)
        self._open[name] = _OpenConnection(owner, transport)
        watched = _Watched(send)
        try:
            await cast("TaskGroup", self._group).start(self._serve, name, transport, connection)
            await transport.handle_request(scope, receive, watched)
        finally:
            if not 0 < watched.status < HTTPStatus.BAD_REQUEST:
                await self._end(name)

    async def _serve(
        self,
        name: str,
        transport: StreamableHTTPServerTransport,
        connection: AgentConnection,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        """Serve a connection until its client ends it or it was not used for long."""
        async with transport.connect() as (reading, writing):
            task_status.started()
            try:
                with cast("anyio.CancelScope", transport.idle_scope):
                    await serve_loop(self._server, reading, writing, lifespan_state=connection, session_id=name)
            except Exception:
                _LOGGER.exception(_BROKE)
            finally:
                await self._end(name)

    async def _end(self, name: str) -> None:
        """End a connection: from this moment on its id is as one that never was."""
        ended = self._open.pop(name, None)
        if ended is not None and not ended.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await ended.transport.terminate()

    async def _discovered(self, _context: Context, _params: RequestParams) -> DiscoverResult:
        """Tell of the protocols that have connections."""
        return DiscoverResult(
            supported_versions=[*HANDSHAKE_PROTOCOL_VERSIONS],
            capabilities=self._server.get_capabilities(),
            instructions=self._server.instructions,
        )


@contextmanager
def _vaulted() -> Generator[None]:
    """Refuse a request while the store does not keep taints. Raises ApiRefusedError."""
    try:
        yield
    except VaultError:
        raise ApiRefusedError(UNAVAILABLE) from None


class _Watched:
    """Sends an answer on, and knows its status; 0 before it begins."""

    def __init__(self, send: Callable[[Message], Awaitable[None]]) -> None:
        self.status = 0
        self._send = send

    async def __call__(self, message: Message) -> None:
        """Send a message of it on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


async def _asked(request: Any) -> ApiRequest:  # noqa: ANN401 - the library does not say of which framework it is
    """Return who asks, as the entrance found it."""
    return cast("ApiRequest", request.scope[ASKED])
