"""MCP's own words: tools as it lists them, calls and their results in its envelope, errors as it has them.

The label of each result stands in its `_meta`. The gate's refusal is a failed result, which a model can read and mend.
An unknown tool is an error of the protocol, and so is a token that is no longer valid.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from bot.api.errors import ErrorAnswer
from bot.api.mcp_server.connection import AgentConnection
from bot.api.mcp_server.served import ListedTool, ServedTools, UnknownToolError, WantedCall
from bot.api.requests import ApiRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

LABEL: Final = "lockgate/label"
"""The key of `_meta` under which a result has its label."""

KEY: Final = "lockgate/key"
"""The key of `_meta` under which a call may have a name: the same name again is the same call."""

REFUSED: Final = -32_001
"""The code of a request whose token is not valid, or asks too often: `data` has the API's own code and next step."""

INSTRUCTIONS: Final = (
    "Lockgate decides which data you may read and where they may go. Each result has a label under "
    f"`_meta[{LABEL!r}]`; your messages here are labelled so afterwards. You find data up to the label of this "
    "connection, which `connection` tells and raises."
)

RELEASE: Final = version("lockgate")
"""Looked up when this is imported, as that reads files."""

_LONGEST_KEY: Final = 256

Context: TypeAlias = "ServerRequestContext[AgentConnection | None, Any]"
Asking: TypeAlias = Callable[[Any], Awaitable[ApiRequest]]
"""Tells who asks, of the HTTP request by which a message came, None on standard input. Raises ApiRefusedError."""


def refused(answer: ErrorAnswer) -> MCPError:
    """Return the refusal of a request as MCP has errors."""
    more = {"retry_after": answer.retry_after} if answer.retry_after else {}
    return MCPError(REFUSED, answer.message, {"code": answer.code, "next_step": answer.next_step, **more})


@asynccontextmanager
async def _unconnected(_server: "Server[AgentConnection | None]") -> AsyncGenerator[None]:
    """Have no connection where the server's owner gives none."""
    yield None


def mcp_server(tools: ServedTools, asking: Asking) -> "Server[AgentConnection | None]":
    """Return a server of MCP; its state is the connection, None where the protocol has none."""

    async def listed(context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        asked = await asking(context.request)
        return ListToolsResult(tools=[_tool(one) for one in await tools.listed(asked)])

    async def called(context: Context, params: CallToolRequestParams) -> CallToolResult:
        asked = await asking(context.request)
        wanted = WantedCall(params.name, params.arguments or {}, _key(context))
        try:
            answer = await tools.call(asked, context.lifespan_context, wanted)
        except UnknownToolError:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}") from None
        return CallToolResult(
            content=[TextContent(text=_written(answer.text))], is_error=answer.failed, _meta={LABEL: str(answer.label)}
        )

    server = Server[AgentConnection | None](
        "lockgate",
        version=RELEASE,
        title="Lockgate",
        instructions=INSTRUCTIONS,
        lifespan=_unconnected,
        cache_hints={"tools/list": CacheHint()},
        # No argument of ours is sent as a header, too, so there is nothing to compare.
        get_tool_input_schema=lambda _name: None,
        on_list_tools=listed,
        on_call_tool=called,
    )
    # Agents' words are in no trace.
    server.middleware.clear()
    return server


def _tool(listed: ListedTool) -> Tool:
    hints = ToolAnnotations(read_only_hint=not listed.acts)
    return Tool(name=listed.name, description=listed.description, input_schema=listed.schema, annotations=hints)


def _written(text: str) -> str:
    """Return a text as JSON can write it: half a character, which UTF-8 has none of, by its number."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(context: Context) -> str:
    """Return the name of a call, empty for none. Raises MCPError: it is none."""
    named = (context.meta or {}).get(KEY, "")
    if not isinstance(named, str) or len(named) > _LONGEST_KEY:
        raise MCPError(INVALID_PARAMS, f"`{KEY}` is a text of at most {_LONGEST_KEY} characters")
    return named
