"""The values that steer the call of a case, by the roles that its tool declares."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from bot.cli.cases.tools import called_tool
from bot.config.model import Config
from bot.gate.steering import judged
from bot.tools.arguments import steering
from bot.tools.base import Arguments
from policy.document.model import Document
from policy.request import SteeredRole


def steered_in(
    config: Config, policy: Document, tool: str, arguments: Mapping[str, JsonValue], *, at: datetime
) -> tuple[SteeredRole, ...]:
    """Return the roles whose values steer the call of a case at a moment.

    The arguments of a tool that neither the program nor an MCP server declares have no roles.
    """
    known = called_tool(config, tool)
    kind = Arguments if known is None else known.arguments
    return judged(policy, tool, steering(kind, arguments), at.astimezone(UTC).date())
