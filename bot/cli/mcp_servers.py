"""Diagnoses of MCP servers for operators: those known beforehand, and those found by connecting."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.cli import identity
from bot.config.mcp import McpServerSettings, confidential
from bot.config.model import Config
from bot.config.references import references
from bot.gate.results import decision_row
from bot.mcp.accounts.errors import AuthorizationError
from bot.mcp.accounts.records import SHARED, Account
from channels.console import OWNER
from policy.decision import Decision
from policy.request import Hook

if TYPE_CHECKING:
    from bot.app.app import App

NO_LOGIN = "nobody has logged in there, and it asks for an account"
LOCKED = "not connected, as none of its tools may use its secrets"


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The findings about a server: `problem` and how to mend it are empty if it is in order.

    `lacking` are listed tools that it does not have, `not_offered` its tools that are not listed.
    """

    server: str
    problem: str = ""
    next_step: str = ""
    lacking: tuple[str, ...] = ()
    not_offered: tuple[str, ...] = ()


def not_there(config: Config, environment: Mapping[str, str]) -> Iterator[ServerReport]:
    """Yield the servers whose command cannot be started, or whose client has no secret.

    `environment` is Lockgate's. It reads folders.
    """
    for name, server in config.mcp_servers.items():
        variable = None if server.oauth is None else server.oauth.client_secret
        if variable is not None and not environment.get(variable, "").strip():
            told = f"the environment variable `{variable}` is not set"
            yield ServerReport(name, told, f"set it, or mend `mcp_servers.{name}.oauth.client_secret`")
        if server.command is not None:
            path = server.env.get("PATH", environment.get("PATH", os.defpath))
            if shutil.which(server.command, path=path) is None:
                told = f"there is no command `{server.command}`"
                yield ServerReport(name, told, f"install it, or mend `mcp_servers.{name}.command`")


def weak(config: Config) -> Iterator[ServerReport]:
    """Yield the servers whose entry works and yet may be a mistake."""
    for name, server in config.mcp_servers.items():
        if server.url is not None and not confidential(server.url):
            told = "its requests and answers are not encrypted"
            yield ServerReport(name, told, f"begin `mcp_servers.{name}.url` with https://")
        if not server.tools:
            told = "none of its tools is offered"
            yield ServerReport(name, told, _list(name))


async def look(app: "App", caller: Caller, environment: Mapping[str, str]) -> list[ServerReport]:
    """Connect every server that can be, and return the findings about each.

    A server gets its secrets as in a call: each is decided at SECRET_ACCESS, for one of its tools, and in the audit
    before.
    """
    absent = {seen.server: seen for seen in await asyncio.to_thread(lambda: [*not_there(app.config, environment)])}
    doubtful = {seen.server: seen for seen in weak(app.config)}

    async def found(name: str, settings: McpServerSettings) -> ServerReport:
        seen = absent.get(name) or await _asked(app, caller, name, settings)
        doubt = doubtful.get(name)
        if doubt is not None and not seen.problem:
            return replace(seen, problem=doubt.problem, next_step=doubt.next_step)
        return seen

    async with app.servers.served(), asyncio.TaskGroup() as together:
        # Side by side, as each may take its whole time to start.
        tasks = [together.create_task(found(*one)) for one in app.config.mcp_servers.items()]
    return [task.result() for task in tasks]


async def _asked(app: "App", caller: Caller, name: str, settings: McpServerSettings) -> ServerReport:
    account = await account_for(app, name, settings)
    if isinstance(account, ServerReport):
        return account
    handed = await handed_to(app, caller, name, settings)
    if handed is None:
        return ServerReport(name, LOCKED, "see `lockgate audit tail`" if settings.tools else _list(name))
    found = await app.servers.look(name, handed, None if account is None else account.key)
    if found.problem:
        return ServerReport(name, found.problem, f"see `mcp_servers.{name}`")
    missing = ", ".join(f"`{tool}`" for tool in found.lacking)
    problem = f"it has no tool {missing}" if missing else ""
    step = f"mend `mcp_servers.{name}.tools`" if missing else ""
    return ServerReport(name, problem, step, found.lacking, found.not_offered)


async def account_for(app: "App", name: str, settings: McpServerSettings) -> Account | ServerReport | None:
    """Return the account to look at a server with, None where it asks for none, or why there is none."""
    if settings.oauth is None:
        return None
    if settings.oauth.personal:
        # Each person's own account opens it.
        return ServerReport(name)
    try:
        account = await app.accounts.tokens.current(name, SHARED)
    except AuthorizationError as error:
        return ServerReport(name, str(error), error.next_step or "try again later")
    return account or ServerReport(name, NO_LOGIN, f"run `lockgate mcp login {name}`")


def _list(name: str) -> str:
    return f"list some in `mcp_servers.{name}.tools`"


async def handed_to(app: "App", caller: Caller, name: str, settings: McpServerSettings) -> Mapping[str, str] | None:
    """Return the values handed to a server beside its calls, with its secrets, None if it may not have them."""
    if not references(" ".join(settings.handed.values())):
        return settings.handed
    home = identity.address(OWNER)
    standing = DecisionContext.of_caller(caller, home, await app.gate.readers.destination(home), app.clock.wall_ms())

    async def record(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
        await app.store.audit.append((decision_row(standing, hook, decision, **told),))

    for tool in app.servers.tools:
        if tool.server == name:
            given = {
                key: await app.gate.reveal(standing, tool, text, host=settings.host, record=record)
                for key, text in settings.handed.items()
            }
            if None not in given.values():
                return {key: text for key, text in given.items() if text is not None}
    return None
