"""`lockgate check` and `lockgate doctor`: the policy in force, and whether all requirements of running are met."""

import asyncio
import os
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.access.labelling import CONFIGURED
from bot.cli.identity import as_owner
from bot.cli.mcp_servers import ServerReport, look, not_there, weak
from bot.cli.output import print_json, print_lines
from bot.config.model import Config
from bot.config.observability.telemetry import given_headers
from bot.config.shown import machine
from bot.core.errors import EXIT_OPERATOR, ConfigError, LockgateError, OperatorError
from bot.files.bucket_access import opened_objects
from bot.mcp.servers import check_library
from bot.operations import diagnostics
from bot.operations.diagnostics import Diagnosis, make_agents, make_models, read_secrets, uncleared, unheard
from bot.operations.probes.ends import ending
from bot.operations.probes.replaced import dropped, in_words
from bot.operations.probes.variables import named
from bot.operations.processes.settings import OtherSettings
from bot.policy_state import other

if TYPE_CHECKING:
    from bot.app.app import App


def check(config: Config) -> None:
    """Print a summary of the configuration, in a few lines.

    Raises OperatorError: the value of a secret, the key of the bucket or the command of an MCP server is not there, or
    a configured model cannot be used.
    """
    keyring = read_secrets(config, os.environ)
    make_models(config, os.environ)
    make_agents(config, os.environ, keyring)
    check_library(config.mcp_servers)
    absent = next(not_there(config, os.environ), None)
    if absent is not None:
        raise OperatorError(f"MCP server {absent.server}: {absent.problem}", next_step=absent.next_step)
    policy = config.policy
    counts = ", ".join(
        f"{len(entries)} {name}"
        for name, entries in (
            ("principals", policy.principals),
            ("channels", policy.channels),
            ("recipients", policy.recipients),
            ("folders", policy.folders),
            ("rules of your own", policy.all_rules),
        )
    )
    store = "embedded" if config.store.url is None else "at an address of its own"
    bare = [f"model {name} may read PUBLIC alone, until `policy.models` says more" for name in uncleared(config)]
    bare += [f"transcriber {name} may hear PUBLIC alone, see `policy.transcribers`" for name in unheard(config)]
    doubtful = [f"MCP server {seen.server}: {seen.problem}, {seen.next_step}" for seen in weak(config)]
    agents = f", agents {', '.join(config.agents)}" if config.agents else ""
    servers = f", {len(config.mcp_servers)} MCP servers" if config.mcp_servers else ""
    if config.telemetry is not None:
        given_headers(config.telemetry, os.environ)
        bare.append(f"traces go to {machine(config.telemetry.endpoint)}, cleared for {config.telemetry.clearance}")
    if config.metrics is not None:
        bare.append(", ".join(filter(None, (f"metrics at {config.metrics.url}", config.metrics.warning))))
    api = config.channels.api
    if api is not None:
        bare.append(", ".join(filter(None, (f"programs come in at {api.url}", api.warning))))
        bare += filter(None, [diagnostics.speaking(config)])
    bare += _bucket(config)
    bare += [in_words(one) for one in dropped(config)]
    print_lines(
        [
            f"{config.source or 'no config.yaml, the defaults'}: in order",
            f"data in {config.data_dir}, store {store}, model {', then '.join(config.model.chain)}{agents}",
            *bare,
            *doubtful,
            f"policy {policy.digest[:12]}: {counts}, {len(config.secrets)} secrets{servers}",
        ]
    )


def _bucket(config: Config) -> list[str]:
    """Return the line on the bucket, if there is one. Raises ConfigError: its library or key is not there."""
    settings = config.files.bucket
    if settings is None:
        return []
    opened_objects(settings, os.environ)
    return [f"files and workspaces in the bucket {settings.name} at {machine(settings.url)}"]


_MOST_NAMED: Final = 30
"""Tools of a server that one line names; `--json` has all."""


async def doctor(config: Config, *, as_json: bool, probe: bool = False, fix: bool = False) -> int:
    """Print the findings; return 2 if there is a fault.

    With `probe` the installation is also tried, and with `fix` safe faults are mended before.
    """
    from bot.cli.probing import fix as fixing
    from bot.cli.probing import probe as probing

    found = [Diagnosis("configuration"), *await diagnostics.configured(config, os.environ), *dropped(config)]
    try:
        if fix:
            found += await asyncio.to_thread(fixing.files, config)
        if probe:
            found += await probing.without_store(config, os.environ)
        async with as_owner(config, looking=not fix) as (app, caller):
            found.append(Diagnosis("data directory"))
            found.extend(ending(config.policy, app.store.tokens.now_ms()))
            # The caller may read the configuration, and sessions up to their clearance.
            cleared = caller.clearance.join(CONFIGURED)
            running = await _running(config, app, probe=probe, fix=fix)
            found.extend(named((one for one in running if one.label.flows_to(cleared)), config.channels))
            found.extend(map(_server, await look(app, caller, os.environ)))
            found.append(await _policy(app))
            found += [_settings(one) for one in await app.settings.differing()]
            told, top = {one.problem for one in found}, app.gate.document.top
            faulty = {one.subject for one in found if one.problem}
            newest = [one for one in app.failures.newest() if one.subject.replace("`", "") not in faulty]
            own = [one for one in newest if one.cause not in told]
            found += [diagnostics.failed(one, top) for one in (*await app.failures.elsewhere(), *own)]
    except LockgateError as error:
        if str(error) not in {one.problem for one in found}:
            found.append(Diagnosis("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([_document(one) for one in found])
    else:
        print_lines(diagnostics.line(one) for one in found)
    return EXIT_OPERATOR if any(one.problem and not one.seen for one in found) else 0


async def _policy(app: "App") -> Diagnosis:
    """Look whether the serving processes decide by this file."""
    head = await app.store.policy.read_policy()
    if head is None or head.digest == app.config.policy.digest or not await app.store.wake.others():
        # The next process to start puts its own in force.
        return Diagnosis("policy in force")
    return Diagnosis(
        "policy in force",
        f"{other(head)}, this file says {app.config.policy.digest[:12]}, and who has it serves nothing",
        "`/policy reload` where the right file is, or restart the others with it",
    )


def _settings(other: OtherSettings) -> Diagnosis:
    """Return the diagnosis of a process with other settings."""
    named = ", ".join(f"`{path}`" for path in other.paths[:_MOST_NAMED])
    more = f" and {len(other.paths) - _MOST_NAMED} more" if len(other.paths) > _MOST_NAMED else ""
    return Diagnosis(
        f"settings of {other.process}",
        f"they differ from this file in {named}{more}",
        "give all processes the same config.yaml and the same tokens, and restart them",
    )


async def _running(config: Config, app: "App", *, probe: bool, fix: bool) -> list[Diagnosis]:
    """Look at the running processes, and ask every configured platform for faults of its connection."""
    from bot.app.adapters import platforms
    from bot.cli.probing import fix as fixing
    from bot.cli.probing import probe as probing

    try:
        made = platforms(
            config.channels,
            os.environ,
            lease=app.store.rights,
            vault=app.vault,
            in_force=lambda: app.gate.document,
            plugins=app.plugins,
        )
    except ConfigError as error:
        found = await app.diagnostics.running((), config.policy.top)
        found += await probing.with_store(app, ()) if probe else []
        return [*found, Diagnosis("channels", str(error), error.next_step)]
    try:
        found = await fixing.platforms(made) if fix else []
        found += await app.diagnostics.running(made, config.policy.top)
        found += await probing.with_store(app, made) if probe else []
    finally:
        for adapter in made:
            await adapter.close()
    return found


def _server(seen: ServerReport) -> Diagnosis:
    """Return the diagnosis of an MCP server."""
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
