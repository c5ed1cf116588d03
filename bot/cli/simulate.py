"""`lockgate simulate`: what the gate would decide about a call of the owner's, at a taint given by hand."""

from pydantic import JsonValue

from bot.access.decision_context import DecisionContext
from bot.cli import person
from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.commands.base import UsageError
from bot.commands.decisions import json_object, rendered
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.sessions.audit import AuditRow
from channels.console import OWNER
from policy.errors import LabelTextError
from policy.labels import Label, parse


async def simulate(config: Config, tool: str, arguments: str, taint: str, *, as_json: bool) -> None:
    """Print the gate's report; it is audited like every simulation.

    Raises OperatorError: arguments or taint cannot be read.
    """
    call, label = _arguments(arguments), _label(config, taint)
    async with as_owner(config) as (app, caller):
        address = person.address(OWNER)
        standing = DecisionContext.of_caller(
            caller, address, await app.gate.readers.destination(address), app.clock.wall_ms(), taint=label
        )
        report = await app.gate.calls.simulate(standing, tool, call, standing.reader)
        body = {"tool": tool[:128], "taint": str(label), "verdict": report["verdict"]}
        await app.store.audit.append((AuditRow("simulate", caller.principal, body),))
    if as_json:
        print_json({"tool": tool, **report})
    else:
        print_lines([rendered(report)])


def _arguments(text: str) -> dict[str, JsonValue]:
    try:
        return json_object(text)
    except UsageError as error:
        raise OperatorError(str(error), next_step='write them as \'{"path": "a.md"}\'') from None


def _label(config: Config, text: str) -> Label:
    try:
        label = parse(text)
    except LabelTextError as error:
        raise OperatorError(str(error), next_step="see `--taint` in `lockgate simulate --help`") from None
    for unknown in sorted(label.compartments.difference(config.policy.compartments)):
        raise OperatorError(f"unknown compartment `{unknown}`", next_step="add it to `policy.compartments`")
    return label
