"""Simulating a call: the gate's decision, audited, without making the call, for chats, programs and the operator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue

from bot.access.decision_context import DecisionContext
from bot.core.errors import BusyError, RequestError
from bot.gate.gate import Gate
from bot.history.recall import recall
from bot.rates import RateLimiter
from bot.sessions.audit import AuditRow
from bot.sessions.models import SessionState, run_facts
from bot.sessions.ports.store import Store
from channels.messages import Address
from policy import explain
from policy.decision import Remedy, Verdict
from policy.labels import Label
from policy.request import Role


class CallArgumentsError(RequestError):
    """The typed arguments of a call are not a JSON object."""

    code = "arguments"


@dataclass(frozen=True, slots=True)
class Simulating:
    """A simulation's basis: where the call would be made from, the asking address, and its clearance."""

    standing: DecisionContext
    address: Address
    reader: Label


class Simulator:
    """Simulates calls and audits that. `simulations` bounds how often an address may ask."""

    def __init__(self, gate: Gate, store: Store, simulations: RateLimiter) -> None:
        self._gate = gate
        self._store = store
        self._simulations = simulations

    async def asked(
        self, by: Simulating, state: SessionState | None, tool: str, arguments: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue]:
        """Return the report about a call in a session, or in one not begun, for a person or program who asks.

        Raises:
            BusyError: their address asks too often.
            StoreError: the store cannot be used.
        """
        if not await self._simulations.allows(str(by.address)):
            raise BusyError
        standing = by.standing
        if state is not None:
            granted = tuple(one for one in await self._store.approvals.of(state.sid) if one.grant is not None)
            standing = replace(standing, run=run_facts(state), grants=granted)
            standing = (await recall(self._store.sessions, state)).folds.of(standing)
        return await self.report(standing, tool, arguments, by.reader)

    async def report(
        self,
        standing: DecisionContext,
        tool: str,
        arguments: Mapping[str, JsonValue],
        reader: Label | None = None,
    ) -> Mapping[str, JsonValue]:
        """Return the gate's report about a call, as its caller, or a `reader`, may know it. Raises StoreError."""
        known = standing.reader if reader is None else reader
        report = await self._gate.calls.simulate(standing, tool, arguments, known)
        body: dict[str, JsonValue] = {"session": standing.sid} if standing.sid else {}
        body |= {"tool": self._gate.calls.known(tool), "taint": str(standing.taint), "verdict": report["verdict"]}
        await self._store.audit.append((AuditRow("simulate", standing.asker, body),))
        return report


def call_arguments(text: str) -> dict[str, JsonValue]:
    """Read a call's arguments as a person types them; nothing at all is an empty object.

    Raises CallArgumentsError: the text is not JSON, or not an object.
    """
    try:
        value = cast("JsonValue", json.loads(text or "{}"))
    except (ValueError, RecursionError) as error:
        place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise CallArgumentsError(f"the arguments are not JSON{place}") from None
    if not isinstance(value, dict):
        raise CallArgumentsError("the arguments are not a JSON object")
    return value


def lines(report: Mapping[str, JsonValue]) -> list[str]:
    """Return a report as lines for people: rules that simply allow are left out."""
    told = [f"{report['verdict']}, taint {report['taint_before']} → {report['taint_after']}"]
    told.extend(_rule(rule) for rule in _entries(report, "rules") if not _allows(rule))
    if "grant" in report:
        told.append(f"Grant {report['grant']} covers it.")
    approvers = tuple(Role(str(name)) for name in _entries(report, "approvers"))
    told.extend(f"You can: {explain.remedy(Remedy(str(name)), approvers)}." for name in _entries(report, "remedies"))
    told.extend(f"It depends on {what}." for what in _entries(report, "depends"))
    return told


def _entries(body: Mapping[str, JsonValue], name: str) -> list[JsonValue]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def _allows(rule: JsonValue) -> bool:
    return isinstance(rule, dict) and rule.get("verdict") == Verdict.ALLOW.name


def _rule(rule: JsonValue) -> str:
    if not isinstance(rule, dict):
        return f"- {rule}"
    kind = "fixed rule" if rule.get("fixed") else "rule"
    message = f": {rule['message']}" if rule.get("message") else ""
    return f"- {kind} {rule.get('id')} says {rule.get('verdict')}{message}"
