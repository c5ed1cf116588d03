"""The gate: the only module that runs a tool.

Every crossing is one method: `admit` what enters the context, `invoke` a model, `prepare` and `run` a
tool call, `respond` with its result, `speak` to an address, `reset` a session, `simulate` a call. Each takes
a `DecisionContext`, the frozen facts of the session at that moment, and returns the decision with what follows
from it. The gate writes nothing: its caller records the decision before acting on it (law
`every_effect_has_a_decision`).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from bot.access import principals
from bot.access.decision_context import DecisionContext, key
from bot.access.recipients import CHANGED, meaning
from bot.config.references import references
from bot.core.ids import held_id
from bot.gate.calls import CallGate
from bot.gate.requests import MAY_GO_ON
from bot.gate.results import CallDecision, ResultDecision
from bot.sessions.deliveries import NewDelivery
from bot.sessions.events import DeferredResult
from bot.tools.arguments import strings
from bot.tools.base import CallFacts, Result, Tool, ToolContext
from bot.tools.references import HOLD, notice
from channels.messages import Address
from policy.decision import Decision, Verdict
from policy.labels import Label
from policy.request import Effect, Hook, ToolFacts

Record = Callable[[Hook, Decision, Mapping[str, JsonValue]], Awaitable[None]]
"""Write down a decision made while a call runs: the hook, the decision, and what else its audit row tells."""

_LOGGER: Final = logging.getLogger(__name__)

FAILED: Final = "the tool failed"
"""What the model reads instead of an exception's text, which nobody has labelled."""


class Gate(CallGate):
    """One document in force, the tools it labels, and the model that thinks."""

    async def run(self, standing: DecisionContext, prepared: CallDecision, record: Record) -> Result:
        """Run an accepted call; its decision must stand in the audit already.

        `record` writes down what is decided while it runs, before it takes effect. Any exception of the tool becomes
        one constant text with the label success would have had (law `unknown_is_worst`); cancellation passes.
        """
        if prepared.accepted is None or prepared.decision.verdict not in MAY_GO_ON:
            raise RuntimeError("a call that was not allowed reached the tools")
        tool, arguments = prepared.accepted
        try:
            result = await tool.run(arguments, self._running(standing, prepared, record))
        except Exception:
            # What it says may hold what the tool read: nobody but a debug line tells it.
            _LOGGER.exception("a tool broke", extra={"tool": tool.name})
            return Result(FAILED, failed=True)
        # Before any rule sees it: no echo of a secret comes further than this.
        return replace(result, text=self.scrubbed(result.text))

    async def respond(self, standing: DecisionContext, prepared: CallDecision, result: Result) -> ResultDecision:
        """Decide on a result (hook POST_TOOL_RESPONSE) and on every text it wants said (hook PRE_OUTPUT).

        `standing` is the session's now, not when the call was made. A refused result is replaced by a
        constant text. If its label was refused, nothing of it is admitted; if its content was, the refusal
        tells of the content and carries its label (law `unknown_is_worst`). Whatever came of a held call is
        held: a notice that is the same whatever it was is admitted instead.
        """
        response = await self._responded(self._answered_for(standing, prepared.approved), prepared, result)
        if not prepared.hold:
            return response
        held = self.kept(standing, prepared, response.text, response.label)
        return replace(response, text=notice(held, standing.taint), label=standing.taint, held=held)

    @staticmethod
    def kept(standing: DecisionContext, prepared: CallDecision, text: str, label: Label) -> DeferredResult:
        """Return what became of a call as an item to be held, under the call's own reference."""
        ref = held_id(key(standing, prepared.call))
        return DeferredResult(ref, text, label.join(prepared.floor).join(prepared.carried), prepared.floor)

    async def _responded(self, standing: DecisionContext, prepared: CallDecision, result: Result) -> ResultDecision:
        facts = ToolFacts(prepared.call.tool, Effect.READ, prepared.label)
        label = result.label.join(prepared.label)
        request = replace(
            self._request(Hook.POST_TOOL_RESPONSE, standing),
            tool=facts,
            item=label,
            content=result.text,
            held=prepared.hold,
        )
        await self.read_ahead(delivery.text for delivery in result.deliver)
        decision = self._decide(request, standing)
        rows = [self.row(standing, Hook.POST_TOOL_RESPONSE, decision, tool=prepared.call.tool, call=prepared.call.id)]
        if decision.verdict not in MAY_GO_ON:
            return ResultDecision(
                Hook.POST_TOOL_RESPONSE,
                decision,
                self.explained(decision, standing.taint, prepared.call.tool),
                label if self._may_enter(standing, prepared.call.tool, label, held=prepared.hold) else standing.taint,
                failed=True,
                deliver=(),
                audit=tuple(rows),
            )
        # Now, by the policy that decided: another one may be put in force while the channels are asked.
        text = self._replaced(result.text, decision)
        deliver = list[NewDelivery]()
        after = replace(standing, taint=standing.taint.join(label))
        for delivery in result.deliver:
            address = Address.parse(delivery.address)
            if prepared.leads and meaning(self.document, address) not in prepared.leads:
                changed = self.refused(standing, CHANGED, decision)
                rows.append(self.row(standing, Hook.PRE_OUTPUT, changed, destination=delivery.address))
                return ResultDecision(
                    Hook.PRE_OUTPUT, changed, CHANGED, label, failed=True, deliver=(), audit=tuple(rows)
                )
            spoken = self.speak(after, await self.prospect(address), delivery.text, approved=prepared.approved)
            rows.append(self.row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=delivery.address))
            if spoken.decision.verdict not in MAY_GO_ON:
                denial = self.explained(spoken.decision, standing.taint, prepared.call.tool)
                return ResultDecision(
                    Hook.PRE_OUTPUT, spoken.decision, denial, label, failed=True, deliver=(), audit=tuple(rows)
                )
            meant = principals.owner(self.document, address)
            deliver.append(
                replace(delivery, text=spoken.text, label=after.taint, approved=prepared.approved, meant_for=meant)
            )
        summary = None if result.summary is None else replace(result.summary, text=text)
        return ResultDecision(
            Hook.POST_TOOL_RESPONSE, decision, text, label, result.failed, tuple(deliver), tuple(rows), summary=summary
        )

    async def reveal(self, standing: DecisionContext, tool: Tool, text: str, host: str, record: Record) -> str | None:
        """Return a text with the values of its secrets for a look at a tool's server, None if one is refused.

        Each is decided as for a call of the tool (hook SECRET_ACCESS), and written down by `record` before.
        """
        return await self._revealed(standing, self._facts(tool, CallFacts()), text, host, record)

    async def _revealed(
        self, standing: DecisionContext, tool: ToolFacts, text: str, host: str, record: Record
    ) -> str | None:
        for name in references(text):
            decision = self.unlock(standing, tool, name, host)
            granted = decision.verdict is Verdict.ALLOW
            # Of what is not configured for it, not even the name is a fact.
            named: JsonValue = name if granted else None
            await record(Hook.SECRET_ACCESS, decision, {"tool": tool.name, "secret": named})
            if not granted:
                return None
        return self._keyring.filled(text)

    def _running(self, standing: DecisionContext, prepared: CallDecision, record: Record) -> ToolContext:
        """Return the scene of a call that runs: it may ask for more, and each answer is written down first."""
        call = prepared.call

        async def reveal(text: str, host: str) -> str | None:
            async def called(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
                await record(hook, decision, {**told, "call": call.id})

            return await self._revealed(standing, ToolFacts(call.tool, Effect.READ, prepared.label), text, host, called)

        async def onward(arguments: Mapping[str, JsonValue]) -> bool:
            # The server that answered wrote these, not the model, so they stand verbatim in what was said.
            told = replace(
                standing,
                taint=standing.taint.join(prepared.carried),
                addresses=standing.addresses | frozenset(strings(dict(arguments))),
            )
            given = {**arguments, HOLD: True} if prepared.hold else arguments
            further = self.prepare(told, replace(call, arguments=given))
            named: dict[str, JsonValue] = {"tool": call.tool, "call": call.id, "arguments": further.call.digest}
            await record(Hook.PRE_TOOL_CALL, further.decision, {**named, "onward": True})
            return further.decision.verdict is Verdict.ALLOW and further.label.join(prepared.label) == prepared.label

        return replace(self._scene(standing, prepared), reveal=reveal, onward=onward)
