"""The gate: the only module that asks the policy engine and the only one that runs a tool.

Every crossing is one method: `admit` what enters the context, `invoke` a model, `prepare` and `run` a
tool call, `respond` with its result, `speak` to an address, `reset` a session, `simulate` a call. Each takes
a `Standing`, the frozen facts of the session at that moment, and returns the decision with what follows
from it. The gate writes nothing: whoever calls it records the decision before acting on it (law
`every_effect_has_a_decision`).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, cast

from pydantic import JsonValue

from bot import labelling
from bot.approvals import binding, live, someone_may_answer, to_spend
from bot.crossings import Prepared, Response, Spoken
from bot.errors import LockgateError
from bot.sessions.values import Approval, AuditRow, Delivery, NewDelivery
from bot.standing import Call, Standing
from bot.tools.arguments import changed, checked, strings
from bot.tools.base import Declared, RefusedCallError, Result, Scene, Tool
from channels.base import Audience, ChannelError
from channels.message import Address
from policy import explain
from policy.decision import Decision, Outcome, Remedy, Verdict, combined
from policy.document import Document
from policy.engine import Engine
from policy.labels import PUBLIC, Label
from policy.request import Destination, Effect, Hook, Request, Role
from policy.request import Tool as Facts

FAILED: Final = "the tool failed"
"""What the model reads instead of an exception's text, which nobody has labelled."""

NOBODY: Final = "nobody may approve this"

_DEPENDS: Final = MappingProxyType(
    {Effect.READ: ("the label of what is read",), Effect.SEND: ("who reads there at the moment of sending",)}
)
"""What only the result or the send can tell, for `simulate`."""

Audiences = Callable[[Address], Awaitable[Audience]]
"""Ask the channels who reads at an address now."""


class Gate:
    """One document in force, the tools it labels, and the model that thinks."""

    def __init__(self, document: Document, tools: Iterable[Tool], model: str, audiences: Audiences) -> None:
        self._document = document
        self._engine = Engine.from_document(document)
        self._tools = {tool.name: tool for tool in tools}
        self._offered = tuple(tool for tool in self._tools.values() if self._facts(tool, Declared()).result is not None)
        self._provider = document.provider(model)
        self._audiences = audiences

    @property
    def document(self) -> Document:
        """The policy document in force."""
        return self._document

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools a model is offered, in order; one that nobody labelled is not among them."""
        return self._offered

    async def destination(self, address: Address) -> Destination:
        """Return an address with its effective clearance now; a channel that cannot tell makes it unknown."""
        try:
            audience = await self._audiences(address)
        except (LockgateError, ChannelError, OSError, KeyError):
            audience = Audience(frozenset(), complete=False)
        return labelling.destination(self._document, address, audience)

    def admit(self, standing: Standing, label: Label, text: str) -> Spoken:
        """Decide on an item entering the context (hook PRE_CONTEXT_INJECTION)."""
        request = replace(self._request(Hook.PRE_CONTEXT_INJECTION, standing), item=label, content=text)
        decision = self._decide(request, standing.now)
        return Spoken(decision, self._engine.redact(text, decision), standing.destination)

    def invoke(self, standing: Standing) -> Decision:
        """Decide on a model call with the context as it is (hook AGENT_INVOCATION)."""
        return self._decide(self._request(Hook.AGENT_INVOCATION, standing), standing.now)

    def reset(self, standing: Standing, *, confirmed: bool) -> Decision:
        """Decide on a new generation (hook SESSION_RESET)."""
        return self._decide(replace(self._request(Hook.SESSION_RESET, standing), confirmed=confirmed), standing.now)

    def speak(self, standing: Standing, destination: Destination, text: str, *, approved: bool = False) -> Spoken:
        """Decide on a text leaving for an address (hook PRE_OUTPUT); `approved` tells of a live approval for it."""
        request = replace(
            self._request(Hook.PRE_OUTPUT, standing), destination=destination, content=text, approved=approved
        )
        decision = self._decide(request, standing.now)
        return Spoken(decision, self._engine.redact(text, decision), destination)

    def reply(self, standing: Standing, destination: Destination, text: str, label: Label) -> Spoken:
        """Decide on a command's answer or a notice: it is judged by what it tells, not by what was read (law 3).

        A rule that asks for approvals asks about what an agent says; a person's own question needs none, or
        nobody could be shown what to approve.
        """
        return self.speak(replace(standing, taint=label), destination, text, approved=True)

    def recheck(self, delivery: Delivery, destination: Destination) -> Spoken:
        """Decide again on a text at the moment of sending, against who reads there now.

        An approval given for it stands; everything else is decided afresh, by the policy in force now.
        """
        request = Request(
            hook=Hook.PRE_OUTPUT,
            principal="outbox",
            role=Role.MEMBER,
            channel=destination.channel,
            taint=delivery.label,
            ceiling=self._document.top,
            provider=self._document.top,
            home=destination.clearance or PUBLIC,
            destination=destination,
            content=delivery.text,
            approved=delivery.approved,
        )
        decision = self._decide(request, delivery.created_at)
        return Spoken(decision, self._engine.redact(delivery.text, decision), destination)

    def prepare(self, standing: Standing, call: Call, approvals: tuple[Approval, ...] = ()) -> Prepared:
        """Decide on a tool call (hook PRE_TOOL_CALL) without touching anything.

        `approvals` are the session's; one that is live and bound to exactly this call lifts what an
        approval can lift. A call that names nothing that could run is refused by `fails_closed`.
        """
        tool = self._tools.get(call.tool)
        try:
            if tool is None:
                return Prepared(call, self._decide(self._request(Hook.PRE_TOOL_CALL, standing), standing.now), "")
            return self._prepared(standing, call, tool, approvals)
        except RefusedCallError as refusal:
            why = str(refusal)
        except Exception:  # noqa: BLE001 - whatever a tool's declaration or its arguments do, the answer is BLOCK
            why = "this call could not be decided"
        return Prepared(call, self.refused(standing, why), "")

    async def run(self, standing: Standing, prepared: Prepared) -> Result:
        """Run an accepted call; its decision must stand in the audit already.

        Any exception of the tool becomes one constant text with the label success would have had (law
        `unknown_is_worst`); cancellation passes.
        """
        if prepared.accepted is None or prepared.decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
            raise RuntimeError("a call that was not allowed reached the tools")
        tool, arguments = prepared.accepted
        try:
            return await tool.run(arguments, self._scene(standing, prepared.call))
        except Exception:  # noqa: BLE001 - whatever a tool raises may hold what it read
            return Result(FAILED, failed=True)

    async def respond(self, standing: Standing, prepared: Prepared, result: Result) -> Response:
        """Decide on a result (hook POST_TOOL_RESPONSE) and on every text it wants said (hook PRE_OUTPUT).

        `standing` is the session's now, not when the call was made. A refused result is replaced by a
        constant text. If its label was refused, nothing of it is admitted; if its content was, the refusal
        tells of the content and carries its label (law `unknown_is_worst`).
        """
        facts = Facts(prepared.call.tool, Effect.READ, prepared.label)
        label = result.label.join(prepared.label)
        request = replace(self._request(Hook.POST_TOOL_RESPONSE, standing), tool=facts, item=label, content=result.text)
        decision = self._decide(request, standing.now)
        rows = [self.row(standing, Hook.POST_TOOL_RESPONSE, decision, tool=prepared.call.tool, call=prepared.call.id)]
        if decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
            return Response(
                Hook.POST_TOOL_RESPONSE,
                decision,
                self.explained(decision, standing.taint, prepared.call.tool),
                label if self._may_enter(standing, prepared.call.tool, label) else standing.taint,
                failed=True,
                deliver=(),
                audit=tuple(rows),
            )
        deliver = list[NewDelivery]()
        after = replace(standing, taint=standing.taint.join(label))
        for delivery in result.deliver:
            address = await self.destination(Address.parse(delivery.address))
            spoken = self.speak(after, address, delivery.text, approved=prepared.approved)
            rows.append(self.row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=delivery.address))
            if spoken.decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
                denial = self.explained(spoken.decision, standing.taint, prepared.call.tool)
                return Response(
                    Hook.PRE_OUTPUT, spoken.decision, denial, label, failed=True, deliver=(), audit=tuple(rows)
                )
            deliver.append(replace(delivery, text=spoken.text, label=after.taint, approved=prepared.approved))
        text = self._engine.redact(result.text, decision)
        return Response(Hook.POST_TOOL_RESPONSE, decision, text, label, result.failed, tuple(deliver), tuple(rows))

    async def simulate(
        self, standing: Standing, name: str, arguments: Mapping[str, JsonValue], reader: Label
    ) -> dict[str, JsonValue]:
        """Report what `prepare` decides about a call, as far as `reader` may know; nothing is written or run."""
        prepared = self.prepare(standing, Call("simulated", name, arguments))
        report = cast("dict[str, JsonValue]", explain.as_dict(prepared.decision, reader))
        if prepared.accepted is not None and prepared.decision.verdict is not Verdict.BLOCK:
            report["depends"] = list(_DEPENDS.get(prepared.accepted[0].effect, ()))
        return report

    @staticmethod
    def explained(decision: Decision, reader: Label, subject: str) -> str:
        """Return a decision about `subject` in words for a reader with this clearance."""
        return "\n".join(explain.render(decision, reader, subject=subject))

    def row(self, standing: Standing, hook: Hook, decision: Decision, **more: JsonValue) -> AuditRow:
        """Return the audit row of a decision."""
        return AuditRow("decision", standing.principal, self.facts(hook, decision, **more))

    @staticmethod
    def facts(hook: Hook, decision: Decision, **more: JsonValue) -> dict[str, JsonValue]:
        """Return a decision for an audit row: names and labels, never content."""
        return {
            "hook": hook.value,
            "verdict": decision.verdict.name,
            "rules": list(decision.rules),
            "before": str(decision.label_before),
            "after": str(decision.label_after),
            "policy": decision.policy,
            **more,
        }

    def _prepared(self, standing: Standing, call: Call, tool: Tool, approvals: tuple[Approval, ...]) -> Prepared:
        """Decide on a call of a tool there is.

        Raises RefusedCallError: it cannot be made as it stands, or would be another call once redacted.
        """
        bound, scene = binding(standing, call), self._scene(standing, call)
        arguments = checked(tool, call.arguments)
        declared = tool.declare(arguments, scene)
        approval = live(approvals, bound, call.id, standing.now)
        facts = self._facts(tool, declared)
        request = replace(
            self._request(Hook.PRE_TOOL_CALL, standing),
            tool=facts,
            content="\n".join(strings(dict(call.arguments or {}))),
            approved=approval is not None,
        )
        decision = self._decide(request, standing.now)
        if declared.says is not None:
            decision = self._with_output(standing, decision, *declared.says, approved=approval is not None)
        if decision.verdict is Verdict.REQUIRE_APPROVAL and not someone_may_answer(self._document, decision, standing):
            decision = self.refused(standing, NOBODY, decision)
        # Without an effect nothing leaves: what such a call is asked with stays in the session, and is asked whole.
        if decision.redact and tool.effect is not Effect.NONE:
            replaced = changed(call.arguments or {}, lambda text: self._engine.redact(text, decision))
            left = "\n".join(strings(replaced))
            if self._engine.redact(left, decision) != left:
                # A number, a field's name, or two texts that only together are what the rule looks for.
                raise RefusedCallError("what a rule would replace in its arguments cannot be replaced there")
            arguments = checked(tool, replaced)
            if _reaches(tool.declare(arguments, scene)) != _reaches(declared):
                raise RefusedCallError("with parts of its arguments replaced this would be another call")
        return Prepared(
            call=call,
            decision=decision,
            binding=bound,
            label=self._document.top if facts.result is None else facts.result,
            use=to_spend(approval),
            accepted=(tool, arguments),
            approved=approval is not None,
        )

    def _facts(self, tool: Tool, declared: Declared) -> Facts:
        """Return a call's facts as declared and as the operator tightened them; one that nobody labelled stays so."""
        known = Facts(tool.name, tool.effect, tool.label, declared.clearance, declared.consequential)
        facts = self._document.tool(known)
        return facts if facts.result is None else replace(facts, result=facts.result.join(declared.result))

    def _request(self, hook: Hook, standing: Standing) -> Request:
        return Request(
            hook=hook,
            principal=standing.principal,
            role=standing.role,
            channel=standing.home.channel,
            taint=standing.taint,
            ceiling=standing.ceiling,
            provider=self._provider,
            home=standing.destination.clearance or PUBLIC,
            overshoot=self._document.channel(standing.home.channel).overshoot,
        )

    def _with_output(
        self, standing: Standing, decision: Decision, address: Address, text: str, *, approved: bool
    ) -> Decision:
        """Return a sending call's decision joined with that on its text; who reads there is asked when it is sent."""
        clearance = labelling.classification(self._document, address)
        said = self.speak(standing, Destination(str(address), address.channel, clearance), text, approved=approved)
        return combined(decision, said.decision)

    def _decide(self, request: Request, now: int) -> Decision:
        return self._engine.decide(request, datetime.fromtimestamp(now / 1000, UTC))

    def refused(self, standing: Standing, why: str, decided: Decision | None = None) -> Decision:
        """Return a BLOCK by `fails_closed`, keeping what the rules had said; `why` is a constant."""
        return Decision(
            verdict=Verdict.BLOCK,
            outcomes=(
                *(decided.outcomes if decided is not None else ()),
                Outcome("fails_closed", Verdict.BLOCK, fixed=True, message=why),
            ),
            label_before=standing.taint,
            label_after=standing.taint,
            remedies=()
            if decided is None
            else tuple(offer for offer in decided.remedies if offer is not Remedy.APPROVER),
            policy=self._engine.digest,
        )

    def _may_enter(self, standing: Standing, tool: str, label: Label) -> bool:
        """Say whether a result of this label may enter the context, whatever it says."""
        facts = Facts(tool, Effect.READ, label)
        request = replace(self._request(Hook.POST_TOOL_RESPONSE, standing), item=label, tool=facts)
        return self._decide(request, standing.now).verdict in {Verdict.ALLOW, Verdict.REDACT}

    def _scene(self, standing: Standing, call: Call) -> Scene:
        def permits(label: Label) -> bool:
            return self._may_enter(standing, call.tool, label)

        async def simulate(name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
            return await self.simulate(standing, name, arguments, standing.taint)

        return Scene(
            sid=standing.sid,
            generation=standing.generation,
            turn=standing.turn,
            key=f"{standing.sid}/{standing.generation}/{call.id}",
            principal=standing.principal,
            role=standing.role,
            ceiling=standing.ceiling,
            taint=standing.taint,
            home=standing.home,
            document=self._document,
            now=standing.now,
            permits=permits,
            simulate=simulate,
        )


def _reaches(declared: Declared) -> tuple[Label, Label | None, bool, Address | None]:
    """Return what a call reads and where it leads, without the words it says."""
    address = None if declared.says is None else declared.says[0]
    return declared.result, declared.clearance, declared.consequential, address
