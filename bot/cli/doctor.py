"""`lockgate doctor`: is everything there that running needs, and how to mend what is not."""

import asyncio
import os
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot import health
from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.cli.servers import Seen, look
from bot.config.model import Config
from bot.errors import EXIT_OPERATOR, ConfigError, LockgateError
from bot.health import Finding
from bot.labelling import CONFIGURED
from bot.reload import other

if TYPE_CHECKING:
    from bot.app import App


_MOST_NAMED: Final = 30
"""Tools of a server that one line names; `--json` has all."""


async def doctor(config: Config, *, as_json: bool) -> int:
    """Print what was looked at; return 2 if something is to be mended."""
    found = [Finding("configuration"), health.model(config, os.environ), health.web(config)]
    found.append(await asyncio.to_thread(health.secrets, config, os.environ))
    try:
        async with as_owner(config) as (app, caller):
            found.append(Finding("data directory"))
            found.append(await asyncio.to_thread(health.tools, config, os.environ, app.gate.tools))
            found.extend(health.store(await app.store.complaints()))
            # Who may run this may read the configuration, and of sessions what they are cleared for.
            cleared = caller.clearance.join(CONFIGURED)
            found.extend(one for one in await _channels(config, app) if one.label.flows_to(cleared))
            told = await health.quarantined(app.store, config.policy.top)
            found.extend(one for one in told if one.label.flows_to(cleared))
            found.extend(map(_server, await look(app, caller, os.environ)))
            found.append(await _policy(app))
            # What failed while this one looked stands above.
            found += [health.failed(one, app.gate.document.top) for one in await app.failures.elsewhere()]
    except LockgateError as error:
        if str(error) not in {one.problem for one in found}:
            found.append(Finding("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([_document(one) for one in found])
    else:
        print_lines(health.line(one) for one in found)
    return EXIT_OPERATOR if any(one.problem and not one.seen for one in found) else 0


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


async def _channels(config: Config, app: "App") -> list[Finding]:
    """Ask every platform that is configured what is wrong with the connection there."""
    from bot.platforms import platforms

    try:
        made = platforms(config.channels, os.environ, app.store, app.vault, lambda: app.gate.document)
    except ConfigError as error:
        return [Finding("channels", str(error), error.next_step)]
    found = list[Finding]()
    for adapter in made:
        found += await health.channel(adapter, config.policy.top)
        await adapter.close()
    return found


def _server(seen: Seen) -> Finding:
    """Return what is told of an MCP server."""
    details: dict[str, JsonValue] = {"lacking": [*seen.lacking], "not_offered": [*seen.not_offered]}
    named = ", ".join(f"`{tool}`" for tool in seen.not_offered[:_MOST_NAMED])
    left = len(seen.not_offered) - _MOST_NAMED
    named += f" and {left} more" if left > 0 else ""
    listed = f"`mcp_servers.{seen.server}.tools`"
    note = f"it also has {named}, which are not offered unless {listed} lists them" if named else ""
    return Finding(f"MCP server {seen.server}", seen.problem, seen.next_step, note, details)


def _document(finding: Finding) -> JsonValue:
    told = {"subject": finding.subject, "problem": finding.problem, "next_step": finding.next_step}
    return {**told, **finding.details}
