"""`lockgate doctor`: is everything there that running needs, and how to mend what is not."""

import asyncio
import os
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot import diagnostics
from bot.access.labelling import CONFIGURED
from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.cli.servers import ServerReport, look
from bot.config.model import Config
from bot.core.errors import EXIT_OPERATOR, ConfigError, LockgateError
from bot.diagnostics import Diagnosis
from bot.policy_state import other

if TYPE_CHECKING:
    from bot.app.app import App


_MOST_NAMED: Final = 30
"""Tools of a server that one line names; `--json` has all."""


async def doctor(config: Config, *, as_json: bool) -> int:
    """Print what was looked at; return 2 if something is to be mended."""
    found = [Diagnosis("configuration"), diagnostics.model(config, os.environ), diagnostics.web(config)]
    found.append(await asyncio.to_thread(diagnostics.secrets, config, os.environ))
    try:
        async with as_owner(config) as (app, caller):
            found.append(Diagnosis("data directory"))
            found.append(await asyncio.to_thread(diagnostics.tools, config, os.environ, app.gate.tools))
            found.extend(diagnostics.store(await app.store.complaints()))
            # Who may run this may read the configuration, and of sessions what they are cleared for.
            cleared = caller.clearance.join(CONFIGURED)
            found.extend(one for one in await _channels(config, app) if one.label.flows_to(cleared))
            told = await diagnostics.quarantined(app.store, config.policy.top)
            found.extend(one for one in told if one.label.flows_to(cleared))
            found.extend(map(_server, await look(app, caller, os.environ)))
            found.append(await _policy(app))
            # What failed while this one looked stands above.
            found += [diagnostics.failed(one, app.gate.document.top) for one in await app.failures.elsewhere()]
    except LockgateError as error:
        if str(error) not in {one.problem for one in found}:
            found.append(Diagnosis("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([_document(one) for one in found])
    else:
        print_lines(diagnostics.line(one) for one in found)
    return EXIT_OPERATOR if any(one.problem and not one.seen for one in found) else 0


async def _policy(app: "App") -> Diagnosis:
    """Look whether what serves decides by this file."""
    head = await app.store.policy.read_policy()
    if head is None or head.digest == app.config.policy.digest or not await app.store.wake.others():
        # Whoever starts next puts its own in force.
        return Diagnosis("policy in force")
    return Diagnosis(
        "policy in force",
        f"{other(head)}, this file says {app.config.policy.digest[:12]}, and who has it serves nothing",
        "`/policy reload` where the right file is, or restart the others with it",
    )


async def _channels(config: Config, app: "App") -> list[Diagnosis]:
    """Ask every platform that is configured what is wrong with the connection there."""
    from bot.app.adapters import platforms

    try:
        made = platforms(
            config.channels, os.environ, lease=app.store.rights, vault=app.vault, in_force=lambda: app.gate.document
        )
    except ConfigError as error:
        return [Diagnosis("channels", str(error), error.next_step)]
    found = list[Diagnosis]()
    for adapter in made:
        found += await diagnostics.channel(adapter, config.policy.top)
        await adapter.close()
    return found


def _server(seen: ServerReport) -> Diagnosis:
    """Return what is told of an MCP server."""
    details: dict[str, JsonValue] = {"lacking": [*seen.lacking], "not_offered": [*seen.not_offered]}
    named = ", ".join(f"`{tool}`" for tool in seen.not_offered[:_MOST_NAMED])
    left = len(seen.not_offered) - _MOST_NAMED
    named += f" and {left} more" if left > 0 else ""
    listed = f"`mcp_servers.{seen.server}.tools`"
    note = f"it also has {named}, which are not offered unless {listed} lists them" if named else ""
    return Diagnosis(f"MCP server {seen.server}", seen.problem, seen.next_step, note, details)


def _document(finding: Diagnosis) -> JsonValue:
    told = {"subject": finding.subject, "problem": finding.problem, "next_step": finding.next_step}
    return {**told, **finding.details}
