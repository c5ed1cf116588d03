"""Commands about decisions: why something was refused, and what would happen if."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from bot.access import principals
from bot.commands.command import CommandRequest, Reply, UsageError
from bot.core.errors import BusyError
from bot.core.rate_limiter import RateLimiter
from bot.gate.gate import Gate
from bot.history import event_log
from bot.history.recall import recall
from bot.sessions.audit import AuditRow
from bot.sessions.events import Event, JsonObject
from bot.sessions.models import SessionQuery, SessionState
from bot.sessions.ports import AuditStore, SessionIndex, SessionStore
from bot.sessions.transcript import backwards
from channels.messages import Address
from policy import explain
from policy.decision import Remedy, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Role

MOST_THREADS: Final = 50
"""How many of a chat's threads are looked through, those that changed last."""

NOTHING_REFUSED: Final = "nothing was refused in this conversation"

_LONGEST_NAME: Final = 128
_REFUSED: Final = frozenset({"BLOCK", "REQUIRE_APPROVAL"})


@dataclass(frozen=True, slots=True)
class DecisionCommands:
    """Explain denials, and simulate calls."""

    sessions: SessionStore
    index: SessionIndex
    audit: AuditStore
    gate: Gate
    simulations: RateLimiter

    async def why(self, request: CommandRequest, argument: str) -> Reply:
        """Explain the last denial; in a shared chat the caller's own, in whichever thread it was."""
        if argument:
            raise UsageError("")
        own = await request.state()
        states = () if own is None else (own,)
        reader, asker = (await request.standing(own)).reader, ""
        if await request.in_shared_chat():
            asker = request.caller.principal
            listed = SessionQuery(principals.of_chat(request.address), reader, limit=MOST_THREADS)
            threads = (await self.index.listed(listed)).sessions
            states += tuple(state for state in threads if state.sid != request.sid and self._is_here(request, state))
        found = [denial for state in states if (denial := await self._last_denial(state, reader, asker)) is not None]
        # That nothing was refused here tells of this conversation as much as what was.
        known = PUBLIC if own is None else own.visibility
        if not found:
            return Reply(NOTHING_REFUSED, known)
        event, label = max(found, key=lambda denial: denial[0].ts)
        return Reply(_explained(event_log.decision_in(event) or {}), label.join(known))

    def _is_here(self, request: CommandRequest, state: SessionState) -> bool:
        """Say whether a session is of the chat at hand, in any of its threads."""
        return Address.parse(state.home).place == request.address.place

    async def _last_denial(self, state: SessionState, reader: Label, asker: str) -> tuple[Event, Label] | None:
        """Return the last event of a session that refused something, to `asker` if one is named, with what it tells."""
        async for event in backwards(self.sessions, state):
            told = event_log.decision_in(event)
            if told is None or told.get("verdict") not in _REFUSED or (asker and told.get("asker") != asker):
                continue
            # One that tells of what was held is shown only where that may be known (law `no_read_up`).
            if event.label.flows_to(reader.join(state.visibility)):
                return event, event.label.join(state.visibility)
        return None

    async def simulate(self, request: CommandRequest, argument: str) -> Reply:
        """Tell what the gate would decide about a call; audited, and nothing else happens."""
        tool, _, rest = argument.partition(" ")
        arguments = json_object(rest.strip())
        if not tool:
            raise UsageError("")
        if not self.simulations.allows(str(request.address)):
            raise BusyError
        state = await request.state()
        standing = await request.standing(state)
        if state is not None:
            standing = (await recall(self.sessions, state)).folds.of(standing)
        report = await self.gate.calls.simulate(standing, tool, arguments, standing.reader)
        body: dict[str, JsonValue] = {
            "session": request.sid,
            "tool": tool[:_LONGEST_NAME],
            "verdict": report["verdict"],
        }
        await self.audit.append((AuditRow("simulate", request.caller.principal, body),))
        return Reply(rendered(report), standing.taint if state is None else state.visibility)


def rendered(report: Mapping[str, JsonValue]) -> str:
    """Return a simulation's report as lines for people: rules that simply allow are left out."""
    lines = [f"{report['verdict']}, taint {report['taint_before']} → {report['taint_after']}"]
    lines.extend(_rule(rule) for rule in _entries(report, "rules") if not _allows(rule))
    approvers = tuple(Role(str(name)) for name in _entries(report, "approvers"))
    lines.extend(f"you can: {explain.remedy(Remedy(str(name)), approvers)}" for name in _entries(report, "remedies"))
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
