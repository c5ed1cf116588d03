"""MCP on standard input and output: one agent's host starts the process, and has its token in the environment.

The whole process is one connection. Each message is let in as a request of the HTTP API is: the token is looked up, the
rate counted. One that was revoked meanwhile is refused, from the next message on.
"""

from dataclasses import replace
from typing import Final

from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server

from bot.api.entrance.request_rates import PROGRAMS, RequestRates
from bot.api.errors import NOT_SERVING, RATE_LIMITED, UNAUTHORIZED, UNAVAILABLE
from bot.api.mcp_server.connection import AgentConnection
from bot.api.mcp_server.protocol import mcp_server, refused
from bot.api.mcp_server.served import ServedTools
from bot.api.requests import ApiRequest
from bot.api.services import ApiServices
from bot.core.errors import StoreError

NO_TOKEN: Final = replace(
    UNAUTHORIZED, next_step="Start the process again with a token that `lockgate token list` calls `live`."
)


class StdioCaller:
    """Lets in the requests on standard input, as the entrance does those over HTTP."""

    def __init__(self, services: ApiServices, token: str) -> None:
        """Let in the program with this token."""
        self._services, self._token = services, token
        self._rates = RequestRates(services.rates.uses(PROGRAMS), services.clock)

    async def __call__(self, _request: object = None) -> ApiRequest:
        """Return who asks. Raises MCPError: the token counts no more, it asks too often, or nothing is served."""
        services = self._services
        try:
            serves = await services.reloader.current_now()
        except StoreError:
            raise refused(UNAVAILABLE) from None
        caller = services.tokens.authenticate(self._token)
        if caller is None:
            raise refused(NO_TOKEN)
        if not serves:
            raise refused(NOT_SERVING)
        most = caller.token.per_minute or services.settings.requests_per_minute
        if waits := await self._rates.use(caller.token.name, most):
            raise refused(replace(RATE_LIMITED, retry_after=waits))
        return ApiRequest(caller, f"req_{services.ids.op()}", services.tokens.reader(caller))


async def serve(services: ApiServices, token: str) -> None:
    """Serve the program with a token until its input ends."""
    connection = AgentConnection()
    server = mcp_server(ServedTools(services), StdioCaller(services, token))
    async with stdio_server() as (reading, writing):
        await serve_dual_era_loop(server, reading, writing, lifespan_state=connection)
