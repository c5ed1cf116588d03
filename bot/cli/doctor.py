"""`lockgate doctor`: is everything there that running needs, and how to mend what is not."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.cli.check import read_secrets
from bot.cli.models import make_models, uncleared, unheard
from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.cli.servers import Seen, look
from bot.config.model import Config
from bot.errors import EXIT_OPERATOR, ConfigError, LockgateError, OperatorError
from bot.reload import other

if TYPE_CHECKING:
    from bot.app import App


_MOST_NAMED: Final = 30
"""Tools of a server that one line names; `--json` has all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what is wrong and how to mend it, both empty when it is in order.

    `note` is to be known all the same, `details` the same for programs.
    """

    subject: str
    problem: str = ""
    next_step: str = ""
    note: str = ""
    details: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


async def doctor(config: Config, *, as_json: bool) -> int:
    """Print what was looked at; return 2 if something is to be mended."""
    found = [Finding("configuration"), _model(config), _web(config)]
    try:
        await asyncio.to_thread(read_secrets, config)
        found.append(Finding("secrets"))
    except OperatorError as error:
        found.append(Finding("secrets", str(error), error.next_step))
    try:
        async with as_owner(config) as (app, caller):
            found.append(Finding("data directory"))
            problems = await app.store.complaints()
            found.extend(Finding("store", str(problem), problem.next_step) for problem in problems)
            if not problems:
                found.append(Finding("store"))
            found.extend(await _channels(config, app))
            found.extend(map(_server, await look(app, caller, os.environ)))
            found.append(await _policy(app))
    except LockgateError as error:
        if str(error) not in {one.problem for one in found}:
            found.append(Finding("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([_document(one) for one in found])
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
    for name in unheard(config):
        return Finding("model", f"`{name}` may hear PUBLIC alone", "add it to `policy.transcribers`")
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


async def _channels(config: Config, app: "App") -> list[Finding]:
    """Ask every platform that is configured what is wrong with the connection there."""
    from bot.platforms import platforms

    try:
        made = platforms(config.channels, config.policy, os.environ, app.store, app.vault)
    except ConfigError as error:
        return [Finding("channels", str(error), error.next_step)]
    found = list[Finding]()
    for adapter in made:
        troubles = await adapter.troubles()
        await adapter.close()
        subject = f"channel {adapter.name}"
        remarks = "; ".join(f"{one.problem}, {one.next_step}" for one in troubles if one.remark)
        wrong = [Finding(subject, one.problem, one.next_step) for one in troubles if not one.remark]
        found += wrong or [Finding(subject, note=remarks)]
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


def _line(finding: Finding) -> str:
    if not finding.problem:
        return f"ok    {finding.subject}{f', {finding.note}' if finding.note else ''}"
    parts = (finding.problem, finding.next_step, finding.note)
    return f"mend  {finding.subject}: {', '.join(part for part in parts if part)}"
