"""Commands about decisions: why something was refused, and what would happen if."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from pydantic import JsonValue

from bot import events
from bot.commands.base import CommandContext, Reply, UsageError
from bot.errors import BusyError
from bot.quoting import addresses
from bot.sessions.json import JsonObject
from bot.sessions.log import backwards
from bot.sessions.records import AuditRow
from policy import explain
from policy.decision import Remedy, Verdict
from policy.labels import PUBLIC

NOTHING_REFUSED: Final = "nothing was refused in this conversation"

_LONGEST_NAME: Final = 128
_REFUSED: Final = frozenset({"BLOCK", "REQUIRE_APPROVAL"})


async def why(context: CommandContext, argument: str) -> Reply:
    """Explain the last denial."""
    if argument:
        raise UsageError("")
    state = await context.state()
    if state is not None:
        reader = (await context.standing(state)).reader
        async for event in backwards(context.store, state):
            # One that tells of what was held is shown only where that may be known (law `no_read_up`).
            told = events.decision_in(event)
            if told is None or told.get("verdict") not in _REFUSED:
                continue
            if event.label.flows_to(reader.join(state.visibility)):
                return Reply(_explained(told), event.label.join(state.visibility))
    return Reply(NOTHING_REFUSED)


async def simulate(context: CommandContext, argument: str) -> Reply:
    """Tell what the gate would decide about a call; audited, and nothing else happens."""
    tool, _, rest = argument.partition(" ")
    arguments = json_object(rest.strip())
    if not tool:
        raise UsageError("")
    if not context.simulations.allows(str(context.address)):
        raise BusyError
    state = await context.state()
    standing = await context.standing(state)
    if state is not None:
        log = [event async for event in backwards(context.store, state)]
        standing = replace(standing, addresses=addresses(reversed(log), PUBLIC), held=events.held_in(log))
    report = await context.gate.simulate(standing, tool, arguments, standing.reader)
    body: dict[str, JsonValue] = {"session": context.sid, "tool": tool[:_LONGEST_NAME], "verdict": report["verdict"]}
    await context.store.append((AuditRow("simulate", context.caller.principal, body),))
    return Reply(rendered(report), standing.taint if state is None else state.visibility)


def rendered(report: Mapping[str, JsonValue]) -> str:
    """Return a simulation's report as lines for people: rules that simply allow are left out."""
    lines = [f"{report['verdict']}, taint {report['taint_before']} → {report['taint_after']}"]
    lines.extend(_rule(rule) for rule in _entries(report, "rules") if not _allows(rule))
    lines.extend(f"you can: {explain.remedy(Remedy(str(name)))}" for name in _entries(report, "remedies"))
    lines.extend(f"depends on {what}" for what in _entries(report, "depends"))
    return "\n".join(lines)


def _entries(body: Mapping[str, JsonValue], name: str) -> list[JsonValue]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def _allows(rule: JsonValue) -> bool:
    return isinstance(rule, dict) and rule.get("verdict") == Verdict.ALLOW.name


def json_object(text: str) -> dict[str, JsonValue]:
    """Read a call's arguments as a person types them; nothing at all is an empty object.

    Raises UsageError: the text is not JSON, or not an object.
    """
    try:
        value = cast("JsonValue", json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"the arguments are not JSON{place}") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments are not a JSON object")
    return value


def _explained(body: JsonObject) -> str:
    """Return the words the decision was told in when it was made."""
    text = body.get("text")
    told = text if isinstance(text, list) else [text]
    return "\n".join(str(line) for line in told)


def _rule(rule: JsonValue) -> str:
    if not isinstance(rule, dict):
        return f"- {rule}"
    kind = "fixed rule" if rule.get("fixed") else "rule"
    message = f": {rule['message']}" if rule.get("message") else ""
    return f"- {kind} {rule.get('id')} says {rule.get('verdict')}{message}"
