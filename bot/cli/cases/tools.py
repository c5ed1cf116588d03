"""The tools that cases of a policy name: those of the program, and those of the MCP servers of the configuration."""

from dataclasses import dataclass

from bot.config.mcp import McpToolSettings, offered_name
from bot.config.model import Config
from bot.mcp.arguments import arguments_type
from bot.tools.base import Arguments
from bot.tools.catalogue import KINDS


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool that is declared.

    Args:
        arguments: The type of its arguments.
        server: Its MCP server, empty for a tool of the program.
        described: Its description in the configuration, None for a tool of the program.
    """

    arguments: type[Arguments]
    server: str = ""
    described: McpToolSettings | None = None


def called_tool(config: Config, tool: str) -> KnownTool | None:
    """Return the tool that goes by a name, None for one that neither the program nor an MCP server declares."""
    for server, entry in config.mcp_servers.items():
        for name, described in entry.tools.items():
            if offered_name(server, name) == tool:
                return KnownTool(arguments_type(tool, described.arguments), server, described)
    return KnownTool(KINDS[tool]) if tool in KINDS else None
