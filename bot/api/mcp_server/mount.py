"""Where MCP stands in the API, `/mcp`: the library for it is imported when the first request comes.

Web pages are refused, with any content: a page that had its name lead to this machine would be let in otherwise (MCP
asks servers to look at `Origin`). Nothing is sent between requests, so there is no stream to `GET`.
"""

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bot.api.entrance.entrance import Receive, Scope, Send
from bot.api.errors import NO_MCP, NO_ORIGIN, UNAVAILABLE, ApiRefusedError
from bot.api.mcp_server.connection import LIMITS, McpLimits
from bot.api.services import ApiServices

if TYPE_CHECKING:
    from bot.api.mcp_server.endpoint import McpEndpoint

PATH: Final = "/mcp"
METHODS: Final = ("DELETE", "POST")

NEEDS: Final = "MCP is not served, as a package is missing"
INSTALL: Final = "install `lockgate[mcp]`"

_LOGGER: Final = logging.getLogger(__name__)


class McpMount:
    """Serves MCP under one path of the API, from the first request for it."""

    def __init__(self, services: ApiServices, limits: McpLimits = LIMITS) -> None:
        """Serve it with these services."""
        self._services, self._limits = services, limits
        self._wanted, self._settled = asyncio.Event(), asyncio.Event()
        self._endpoint: McpEndpoint | None = None

    async def serve(self) -> None:
        """Serve until cancelled, from the first request on; without the library nothing is served."""
        await self._wanted.wait()
        try:
            module = await asyncio.to_thread(import_module, "bot.api.mcp_server.endpoint")
        except ImportError:
            _LOGGER.warning(NEEDS, extra={"subject": PATH, "step": INSTALL})
            self._settled.set()
            return
        make: type[McpEndpoint] = module.McpEndpoint
        endpoint = make(self._services, self._limits)
        async with endpoint.running():
            self._endpoint = endpoint
            self._settled.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._endpoint = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises ApiRefusedError: it is a web page's, or MCP is not served."""
        if any(name == b"origin" for name, _ in scope["headers"]):
            raise ApiRefusedError(NO_ORIGIN)
        self._wanted.set()
        await self._settled.wait()
        if self._endpoint is None:
            raise ApiRefusedError(UNAVAILABLE if self._services.closing.is_set() else NO_MCP)
        await self._endpoint(scope, receive, send)
