"""`lockgate mcp draft`: an MCP server's entry for config.yaml, made from its own list of tools, for a person to review.

It prints and changes nothing. A server that is configured gets its secrets as in a call; any other is reached as the
command line says, and gets none.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue, ValidationError

from bot.cli.identity import as_owner
from bot.cli.mcp_servers import LOCKED, ServerReport, account_for, handed_to
from bot.cli.output import print_lines
from bot.config.mcp import McpServerSettings, McpToolSettings, is_server, is_tool
from bot.config.model import Config
from bot.config.references import references
from bot.config.secrets import granted
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.mcp.accounts.records import AccountKey
from bot.mcp.draft.differences import differences
from bot.mcp.draft.document import document, quoted
from bot.mcp.draft.tools import drafted
from bot.mcp.listing import ServerTool
from bot.mcp.servers import Servers
from policy.errors import nearest

_NAME = 80
_PROBE = "lockgate_draft"
"""Stands for the tools of a server that lists none yet, where the gate decides about its secrets."""

SAME = "the server and config.yaml agree"


@dataclass(frozen=True, slots=True)
class DraftWish:
    """The options of the command.

    Args:
        command: The words that start a server that is not configured, none for a configured one.
        url: The address of one that is not configured, empty for none.
        tools: The tools to draft, all if none are named.
        diff: Whether differences are printed in place of a draft.
        seconds: The longest time that the server may take to start, and again to answer; 0 for the configured one.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    tools: tuple[str, ...] = ()
    diff: bool = False
    seconds: int = 0


async def draft(config: Config, name: str, wish: DraftWish) -> None:
    """Print a draft of a server's entry, or its differences from the configured one.

    Raises OperatorError: there is no such server or tool, or the server cannot be asked.
    """
    settings, entry = _settings(config, name, wish)
    if wish.seconds:
        settings = settings.model_copy(update={"start_seconds": wish.seconds, "call_seconds": wish.seconds})
    listed = _chosen(name, await _listed(config, name, settings), wish.tools)
    made = drafted(name, listed)
    if wish.diff:
        known = {tool: said for tool, said in settings.tools.items() if not wish.tools or tool in wish.tools}
        print_lines([one.line for one in differences(made, known)] or [SAME])
    else:
        print_lines(document(made, entry, config.policy.top))


def _settings(config: Config, name: str, wish: DraftWish) -> tuple[McpServerSettings, Mapping[str, JsonValue] | None]:
    """Return how a server is reached, and its entry if config.yaml has none."""
    given = bool(wish.command) + bool(wish.url)
    if name in config.mcp_servers:
        if given:
            raise OperatorError(f"MCP server {name} is configured already", next_step="leave its address out")
        return config.mcp_servers[name], None
    if not is_server(name):
        raise OperatorError(
            f"{quoted(name, _NAME)} is not the name of a server",
            next_step="use up to 30 lower-case letters, digits, `_` and `-`",
        )
    if given != 1 or wish.diff:
        raise OperatorError(
            f"there is no MCP server `{name}` in the configuration{nearest(name, config.mcp_servers)}",
            next_step=f"add it, or write `lockgate mcp draft {name} --url ADDRESS` or `... {name} -- COMMAND`",
        )
    entry: dict[str, JsonValue] = {"url": wish.url}
    if wish.command:
        entry = {"command": wish.command[0]}
        if wish.command[1:]:
            entry["args"] = list(wish.command[1:])
    try:
        return McpServerSettings.model_validate({**entry, "tools": {}}), entry
    except ValidationError as error:
        said = error.errors(include_url=False, include_input=False)[0]
        raise OperatorError(str(said.get("ctx", {}).get("error", said["msg"]))) from None


async def _listed(config: Config, name: str, settings: McpServerSettings) -> tuple[ServerTool, ...]:
    """Return the tools that a server lists. Raises OperatorError: it cannot be asked."""
    if settings.oauth is None and not references(" ".join(settings.handed.values())):
        servers = Servers({name: settings}, os.environ, SystemClock(), str)
        return await _asked(servers, name, settings.handed)
    # The gate decides about a secret for a tool, and a new server lists none.
    probed = settings.model_copy(
        update={"tools": settings.tools or {_PROBE: McpToolSettings(description=_PROBE, effect="read")}}
    )
    whole = replace(
        config,
        mcp_servers={**config.mcp_servers, name: probed},
        secrets=granted(config.secrets, {name: probed}),
    )
    async with as_owner(whole) as (app, caller):
        account = await account_for(app, name, probed)
        if isinstance(account, ServerReport):
            problem = account.problem or "each person opens it with an account of their own"
            step = account.next_step or f"set `mcp_servers.{name}.oauth.accounts` to `shared` for the draft"
            raise OperatorError(f"MCP server {name}: {problem}", next_step=step)
        handed = await handed_to(app, caller, name, probed)
        if handed is None:
            raise OperatorError(f"MCP server {name}: {LOCKED}", next_step="see `lockgate audit tail`")
        return await _asked(app.servers, name, handed, None if account is None else account.key)


async def _asked(
    servers: Servers, name: str, handed: Mapping[str, str], account: AccountKey | None = None
) -> tuple[ServerTool, ...]:
    async with servers.served():
        found = await servers.listed(name, handed, account)
        problem = servers.complaint(name)
    if found is None:
        raise OperatorError(
            f"MCP server {name}: {problem or 'it cannot be asked'}",
            next_step="start it by hand to see what it does, then try again",
        )
    return found


def _chosen(server: str, listed: Sequence[ServerTool], wanted: tuple[str, ...]) -> list[ServerTool]:
    """Return the wanted tools. Raises OperatorError: the server has no such tool."""
    names = [tool.name for tool in listed]
    for name in wanted:
        if name not in names:
            like = nearest(name, filter(is_tool, names))
            raise OperatorError(f"MCP server {server} has no tool {quoted(name, _NAME)}{like}")
    return [tool for tool in listed if not wanted or tool.name in wanted]
