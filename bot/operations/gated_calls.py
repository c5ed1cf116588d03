"""Tool calls that people and programs ask for outside a turn, made through the gate as an agent's are.

A decision is recorded before it takes effect (law `every_effect_has_a_decision`), and its text is compared with the
caller's clearance. So a person, a program and an agent that start the same thing take one path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.access.recipients import ChangedRecipientError
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, CallDecision, ResultDecision, decision_row
from bot.sessions.ports.people import AuditStore
from policy.decision import Decision
from policy.labels import PUBLIC, Label
from policy.request import Hook


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that the gate refused, and where its caller stood.

    `label` is the label of the reason, beside the caller's own: the result of the call may be the reason.
    """

    decision: Decision
    standing: DecisionContext
    label: Label = PUBLIC


class GatedCalls:
    """Makes tool calls for people and programs, through the gate."""

    def __init__(self, gate: Gate, audit: AuditStore) -> None:
        self._gate = gate
        self._audit = audit

    async def made(
        self, standing: DecisionContext, call: Call, typed: Label, leads: tuple[str, ...] = ()
    ) -> ResultDecision | RefusedCall:
        """Make a call for the caller; return its response, or why it was refused.

        Their words have the label `typed`, at any taint of the session; the tools of the session's agent do not limit
        them. `leads` is the meaning of each named recipient at the time of the offer, empty if there was none.

        Raises:
            ChangedRecipientError: a recipient means another place or person by now.
            StoreError: the store cannot be used.
        """
        standing = _saying(standing, typed)
        prepared = await self._decided(standing, call, leads)
        if prepared.decision.verdict not in MAY_GO_ON:
            return RefusedCall(prepared.decision, standing)
        within = _within(standing)

        async def record(hook: Hook, decision: Decision, facts: Mapping[str, JsonValue]) -> None:
            await self._audit.append((decision_row(standing, hook, decision, **within, **facts),))

        response = await self._gate.results.respond(
            standing, prepared, await self._gate.run(standing, prepared, record)
        )
        await self._audit.append(tuple(replace(row, body={**row.body, **within}) for row in response.audit))
        if response.decision.verdict not in MAY_GO_ON:
            return RefusedCall(response.decision, standing, response.label)
        return response

    async def decided(self, standing: DecisionContext, call: Call, typed: Label) -> CallDecision | RefusedCall:
        """Decide on a call whose effect its caller brings about by another way in; return it, or why it is refused.

        Their words have the label `typed`. Raises StoreError.
        """
        standing = _saying(standing, typed)
        prepared = await self._decided(standing, call, ())
        return prepared if prepared.decision.verdict in MAY_GO_ON else RefusedCall(prepared.decision, standing)

    async def _decided(self, standing: DecisionContext, call: Call, leads: tuple[str, ...]) -> CallDecision:
        prepared = await self._gate.calls.foresee(standing, self._gate.calls.prepare(standing, call))
        if leads and prepared.accepted is not None and prepared.leads != leads:
            raise ChangedRecipientError
        named: dict[str, JsonValue] = {"tool": prepared.call.tool, **prepared.audited, **_within(standing)}
        await self._audit.append((decision_row(standing, Hook.PRE_TOOL_CALL, prepared.decision, **named),))
        return prepared


def _saying(standing: DecisionContext, typed: Label) -> DecisionContext:
    """Return where somebody stands who says something of a label; which tools an agent has does not count."""
    agent = None if standing.agent is None else replace(standing.agent, tools=None)
    return replace(standing, taint=typed, visibility=typed, agent=agent)


def _within(standing: DecisionContext) -> dict[str, JsonValue]:
    return {"session": standing.sid} if standing.sid else {}
