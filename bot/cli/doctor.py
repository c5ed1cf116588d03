"""`lockgate doctor`: is everything there that running needs, and how to mend what is not."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.cli.check import read_secrets
from bot.cli.models import make_models, uncleared
from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.config.model import Config
from bot.config.references import references
from bot.errors import EXIT_OPERATOR, ConfigError, LockgateError, OperatorError
from bot.mcp.servers import Servers
from bot.reload import other

if TYPE_CHECKING:
    from bot.app import App


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what is wrong and how to mend it, both empty when it is in order."""

    subject: str
    problem: str = ""
    next_step: str = ""


async def doctor(config: Config, *, as_json: bool) -> int:
    """Print what was looked at; return 2 if something is to be mended."""
    found = [Finding("configuration"), _model(config), _web(config)]
    try:
        await asyncio.to_thread(read_secrets, config)
        found.append(Finding("secrets"))
    except OperatorError as error:
        found.append(Finding("secrets", str(error), error.next_step))
    try:
        async with as_owner(config) as (app, _):
            found.append(Finding("data directory"))
            problems = await app.store.complaints()
            found.extend(Finding("store", str(problem), problem.next_step) for problem in problems)
            if not problems:
                found.append(Finding("store"))
            found.extend(await _servers(config, app.servers))
            found.append(await _policy(app))
    except LockgateError as error:
        if str(error) not in {one.problem for one in found}:
            found.append(Finding("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([{"subject": one.subject, "problem": one.problem, "next_step": one.next_step} for one in found])
    else:
        print_lines(_line(one) for one in found)
    return EXIT_OPERATOR if any(one.problem for one in found) else 0


def _model(config: Config) -> Finding:
    """Look whether every model can be made, and has a clearance."""
    try:
        make_models(config)
    except ConfigError as error:
        return Finding("model", str(error).removeprefix("model "), error.next_step)
    for name in uncleared(config):
        return Finding("model", f"`{name}` has no clearance, it may read PUBLIC alone", "add it to `policy.models`")
    return Finding("model")


async def _policy(app: "App") -> Finding:
    """Look whether what serves decides by this file."""
    head = await app.store.read_policy()
    if head is None or head.digest == app.config.policy.digest or not await app.store.others():
        # Whoever starts next puts its own in force.
        return Finding("policy in force")
    return Finding(
        "policy in force",
        f"{other(head)}, this file says {app.config.policy.digest[:12]}, and who has it serves nothing",
        "`/policy reload` where the right file is, or restart the others with it",
    )


def _web(config: Config) -> Finding:
    """Look whether sessions can reach what is not public."""
    private = config.web.unsafe_allow_private_addresses
    if private:
        return Finding(
            "web",
            f"every session may reach {', '.join(f'`{one}`' for one in private)}",
            "take them out of `web.unsafe_allow_private_addresses` unless that is meant",
        )
    return Finding("web")


async def _servers(config: Config, servers: Servers) -> list[Finding]:
    """Look whether the MCP servers answer and have the tools that are listed; what needs secrets is not connected."""
    found = list[Finding]()
    async with servers.served():
        for name, settings in config.mcp_servers.items():
            subject = f"MCP server {name}"
            if references(" ".join(settings.handed.values())):
                found.append(Finding(f"{subject}, not connected, as its secrets are for sessions alone"))
            else:
                problem = await servers.trouble(name)
                found.append(Finding(subject, problem, f"see `mcp_servers.{name}`" if problem else ""))
    return found


def _line(finding: Finding) -> str:
    if not finding.problem:
        return f"ok    {finding.subject}"
    return f"mend  {finding.subject}: {finding.problem}{f', {finding.next_step}' if finding.next_step else ''}"
