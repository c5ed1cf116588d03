"""The values that steer the call of a case, by the roles that its tool declares."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from bot.config.mcp import offered_name
from bot.config.model import Config
from bot.gate.steering import judged
from bot.mcp.arguments import arguments_type
from bot.tools.arguments import steering
from bot.tools.base import Arguments
from bot.tools.catalogue import KINDS
from policy.document.model import Document
from policy.request import SteeredRole


def steered_in(
    config: Config, policy: Document, tool: str, arguments: Mapping[str, JsonValue], *, at: datetime
) -> tuple[SteeredRole, ...]:
    """Return the roles whose values steer the call of a case at a moment.

    The arguments of a tool that neither the program nor an MCP server declares have no roles.
    """
    return judged(policy, tool, steering(_kind(config, tool), arguments), at.astimezone(UTC).date())


def _kind(config: Config, tool: str) -> type[Arguments]:
    for server, entry in config.mcp_servers.items():
        for name, described in entry.tools.items():
            if offered_name(server, name) == tool:
                return arguments_type(tool, described.arguments)
    return KINDS.get(tool, Arguments)
