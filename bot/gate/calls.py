"""Decisions on tool calls, before anything is touched, and simulated calls.

Every call is decided at hook PRE_TOOL_CALL, a call of an MCP server's tool at MCP_TOOL_CALL too.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from pydantic import JsonValue

from bot.access import labelling
from bot.access.approvals import RELEASE, asking, binding, live, put_to, someone_may_answer, to_spend, withheld
from bot.access.decision_context import Call, DecisionContext
from bot.access.recipients import meaning
from bot.core.errors import StoreError
from bot.gate import grants, releasing
from bot.gate.bounded import charges
from bot.gate.grants import NOTHING, Lifted
from bot.gate.judge import Judge, declared_facts, is_spared, seen, tightened
from bot.gate.origins import declared_by
from bot.gate.output import OutputGate
from bot.gate.readers import Readers
from bot.gate.references import holds, kept, referring
from bot.gate.results import MAY_GO_ON, NOT_KNOWN, CallDecision
from bot.gate.routes import check_route, expected, reaches, unlisted
from bot.gate.steering import steered
from bot.gate.tool_contexts import tool_context
from bot.sessions.approvals import Approval
from bot.sessions.background.delegation import SESSION
from bot.sessions.background.runs import UNREAD
from bot.sessions.consents.released_calls import fits
from bot.sessions.deliveries import OURS
from bot.tools.arguments import as_json, changed, checked, strings, texts
from bot.tools.base import (
    Arguments,
    CallFacts,
    Foresees,
    Inquires,
    RefusedCallError,
    Tool,
    ToolContext,
)
from bot.tools.held.conditions import UNMET, check_effect
from bot.tools.held.entries import as_marked_now
from bot.tools.references import Asked, asked, mentions, pointing, takes_entries
from policy import explain
from policy.decision import Decision, Remedy, RuleOutcome, Verdict, combined
from policy.errors import nearest
from policy.fixed import NO_TOOL, OUTCOME
from policy.labels import Label
from policy.request import Effect, Hook, Request, ToolFacts

NOBODY: Final = "nobody may approve this, as no person of the policy has the role and the clearance for it"
NOBODY_ALONE: Final = (
    "Nobody may approve this: a background session asks only its asker, in a private chat cleared for its taint. "
    "Have the conversation itself make this call."
)
UNSEEN: Final = "people were not shown the text of the reference, so they did not approve it"
UNDECIDED: Final = "this call could not be decided"
UNASKED: Final = "the text of the reference needs an approval, and to ask for one would tell of it"
REFERRED: Final = "the text of the reference"
BITS: Final = "the room for the bits of its entries"
MAY_BE_DONE: Final = "this call was begun before and was interrupted, so it may have taken effect already"
MAY_BE_LOST: Final = "the newest entries of this conversation were lost, so this call may have taken effect already"

_LOGGER: Final = logging.getLogger(__name__)
_DOWN: Final = "no_write_down"
_BY_READERS: Final = frozenset({Remedy.RECLASSIFY, Remedy.CLEAR_READER, Remedy.VOUCH})
"""The remedies whose effect depends on the readers of an address."""

_DEPENDS: Final = MappingProxyType(
    {
        Effect.READ: ("the label of the data that are read",),
        Effect.SEND: ("who reads there, or where it leads, at the moment of sending",),
    }
)
"""The facts that `simulate` cannot know, since they depend on the result or the moment of sending."""


UNKNOWN_TOOL: Final = "unknown"
"""Stands in the audit for the name of an unknown tool."""


class CallGate:
    """Decides on tool calls."""

    def __init__(self, judge: Judge, output: OutputGate, readers: Readers) -> None:
        self._judge = judge
        self._output = output
        self._readers = readers

    def prepare(
        self, standing: DecisionContext, call: Call, approvals: tuple[Approval, ...] = (), *, begun: bool = False
    ) -> CallDecision:
        """Decide on a tool call (hooks PRE_TOOL_CALL and MCP_TOOL_CALL) without touching anything.

        A call that names nothing runnable is refused by `fails_closed`. A call by another name of a tool becomes a call
        of the tool here.

        Args:
            standing: The session.
            call: The call.
            approvals: The session's approvals. One that is live and bound to exactly this call lifts the rules that an
                approval can lift.
            begun: Whether the log has the call begun and no result of it; then a consequential call needs an approval
                to be made again.
        """
        call = self.named(call)
        tool = self._judge.tool(standing, call.tool)
        # A decidable call sets this itself; for an undecidable one it must not be revealed whether it was held.
        held = self._judge.document.holds(call.tool, "" if tool is None else tool.server)
        hold = begun and (held or mentions(call.arguments))
        asked = next((one for one in approvals if one.is_question and one.call == call.id), None)
        made = CallDecision(call, self._judge.refused(standing, UNDECIDED), "", hold=hold, begun=begun, asked=asked)
        try:
            if not self._judge.knows(standing):
                return replace(made, decision=self._judge.refused(standing, NOT_KNOWN))
            if tool is None:
                return replace(made, decision=self._no_tool(standing, call.tool))
            return self._prepared(standing, made, tool, approvals)
        except RefusedCallError as refusal:
            return replace(made, decision=self._judge.refused(standing, str(refusal)))
        except Exception:
            # The answer is BLOCK, no matter how a tool's declaration or its arguments fail.
            _LOGGER.exception("a call could not be decided")
            return made

    async def read_call(self, call: Call) -> None:
        """Read long texts of a call in a thread, before `prepare` decides on them."""
        # Arguments that cannot be written as texts are not a call.
        with suppress(ValueError, RecursionError):
            await self._judge.read_ahead(tuple(strings(dict(call.arguments or {}))), Hook.PRE_TOOL_CALL)

    def named(self, call: Call) -> Call:
        """Return a call by another name of a tool as a call of the tool, with the arguments that the name stands for.

        Any other call is returned as it is. Rules, approvals and the audit know only the tool. Ids that stand alone
        where a tool takes references become references.
        """
        call = pointing(call)
        if call.arguments is None or call.tool not in self._judge.aliases:
            return call
        tool, fixed = self._judge.aliases[call.tool]
        return replace(call, tool=tool, arguments={**call.arguments, **fixed})

    def known(self, name: str) -> str:
        """Return the name of a tool for the audit: an unknown name was made up by a model, and may be any text."""
        return name if name in self._judge.tools else UNKNOWN_TOOL

    def reaches_others(self, call: Call) -> bool:
        """Say whether a call must wait for the reads before it: it writes or sends, or names an unknown tool."""
        tool = self._judge.tools.get(call.tool)
        return tool is None or tool.effect in {Effect.SEND, Effect.WRITE}

    def runs_alone(self, call: Call) -> bool:
        """Say whether no other call may run beside a call: it reaches others, or takes an entry of a held list.

        The result beside it may tell of its effect. So the log has to say before that it took an entry.
        """
        return self.reaches_others(call) or takes_entries(call.arguments)

    async def foresee(self, standing: DecisionContext, prepared: CallDecision) -> CallDecision:
        """Decide again on a call, with the text it would send and the present readers of its address (hook PRE_OUTPUT).

        So neither people nor a model are promised a delivery that would be withheld: such a call is refused before
        people are asked about it. For a refused call, only remedies that work at that address are offered. A call whose
        result is to be told to another reader later is refused if nothing that follows from it can flow there. The text
        behind a reference is not considered, as the answer would reveal it.
        """
        decision = prepared.decision
        settled = decision.verdict is Verdict.BLOCK and _BY_READERS.isdisjoint(decision.remedies)
        if prepared.accepted is None or prepared.open is not None or settled:
            return prepared
        tool, arguments = prepared.accepted
        declared = tool.declare(arguments, tool_context(self._judge, standing, prepared))
        says = declared.says if declared.tells is None else (declared.tells, "")
        if says is None:
            return prepared
        lifted = prepared.approved or asking(decision)
        spoken = self._output.speak(standing, await self._readers.prospect(says[0]), says[1], approved=lifted).decision
        if spoken.verdict is not Verdict.BLOCK or (declared.tells is not None and _DOWN not in spoken.rules):
            return prepared
        return replace(prepared, decision=combined(decision, spoken))

    async def inquire(self, standing: DecisionContext, prepared: CallDecision) -> CallDecision:
        """Return a permitted call with its question to the asker, unless that is over.

        Its tool may read the data that the call may read, so this follows the decision. If it fails the call is
        refused.

        Raises StoreError: the data cannot be read.
        """
        if prepared.accepted is None or prepared.asked is not None or prepared.decision.verdict not in MAY_GO_ON:
            return prepared
        tool, arguments = prepared.accepted
        if not isinstance(tool, Inquires):
            return prepared
        try:
            inquiry = await tool.inquiry(arguments, tool_context(self._judge, standing, prepared))
        except StoreError:
            raise
        except Exception:
            _LOGGER.exception("a call could not be decided", extra={"tool": tool.name})
            return replace(prepared, decision=self._judge.refused(standing, UNDECIDED))
        return replace(prepared, inquiry=inquiry)

    async def simulate(
        self, standing: DecisionContext, name: str, arguments: Mapping[str, JsonValue], reader: Label
    ) -> dict[str, JsonValue]:
        """Report the decision about a call, as far as `reader` may know it; nothing is written or run.

        A grant that `reader` may not know of counts for nothing; any other one covers calls of its asker alone.
        """
        known = tuple(one for one in standing.grants if one.label.flows_to(reader))
        standing = replace(standing, grants=known)
        prepared = await self.foresee(standing, self.prepare(standing, Call("simulated", name, arguments)))
        report = cast("dict[str, JsonValue]", explain.as_dict(prepared.told, reader))
        if prepared.grant is not None:
            report["grant"] = prepared.grant.grant
        if prepared.accepted is not None and prepared.told.verdict is not Verdict.BLOCK:
            tool, given = prepared.accepted
            depends = ([] if prepared.open is None else [REFERRED]) + ([BITS] if prepared.taken else [])
            if isinstance(tool, Foresees):
                # The label of the text behind a reference may be above its floor, which must not be revealed.
                told = prepared if prepared.open is None else replace(prepared, carried=prepared.floor)
                depends += await tool.foresee(given, tool_context(self._judge, standing, told))
            report["depends"] = [*depends, *_DEPENDS.get(tool.effect, ())]
        return report

    def _prepared(
        self, standing: DecisionContext, made: CallDecision, tool: Tool, approvals: tuple[Approval, ...]
    ) -> CallDecision:
        """Decide on a call of a known tool: first openly, then with the text behind its references.

        Raises RefusedCallError: the call cannot be made as it stands, or would be another call once redacted.
        """
        held = tuple(as_marked_now(one, self._judge.tools.get(one.tool)) for one in standing.held)
        taken = asked(tool, made.call.arguments, held)
        made = replace(
            made,
            hold=holds(self._judge.document, tool, taken, untrusted=standing.taint.untrusted),
            carried=taken.floor,
            content=taken.content_floor,
            known=taken.floor,
            steers=taken.steers,
            by_handle=bool(taken.depends) and not taken.by_text,
            condition=taken.condition,
            entries=tuple(taken.entries.values()),
            taken=charges(standing, made.call, taken.entries.values()),
            server=tool.server,
            own=taken.own,
        )
        opened = self._judged(standing, made, tool, taken=taken, approvals=approvals)
        if not taken.depends or opened.decision.verdict is Verdict.BLOCK:
            return opened
        whole = replace(opened, carried=taken.label, content=taken.content, shown=taken.shown())
        whole = replace(whole, open=opened.decision, opened=opened.accepted)
        try:
            check_route(tool, taken, tool_context(self._judge, standing, whole))
            whole = self._judged(standing, whole, tool, taken=taken, approvals=approvals)
        except RefusedCallError as refusal:
            whole = replace(whole, decision=self._judge.refused(standing, str(refusal)))
        except Exception:
            _LOGGER.exception("a call could not be decided", extra={"tool": tool.name})
            whole = replace(whole, decision=self._judge.refused(standing, UNDECIDED))
        whole = self._asked_openly(standing, opened, whole, approvals)
        if taken.condition is None or taken.condition.value is True or whole.decision.verdict not in MAY_GO_ON:
            return whole
        # Only now, so that people are asked the same, whether or not it is met.
        return replace(whole, decision=self._judge.refused(standing, UNMET, whole.decision))

    def _asked_openly(
        self, standing: DecisionContext, opened: CallDecision, whole: CallDecision, approvals: tuple[Approval, ...]
    ) -> CallDecision:
        """Return a call as decided as a whole, but with the question to people as decided openly, since they see it.

        A refusal of the call as a whole takes effect after they have answered, and spends their approval. That approval
        does not cover texts they were not shown.
        """
        whole = replace(whole, use=opened.use, grant=opened.grant, scope=None, ended=opened.ended)
        asks = asking(whole.decision)
        if opened.decision.verdict is Verdict.REQUIRE_APPROVAL:
            lifts = whole.decision.verdict is not Verdict.BLOCK and set(asks).issubset(asking(opened.decision))
            if RELEASE in asks:
                lifts = lifts and fits(whole.call.tool, whole.shown or {})
            missing = any(entry.missing for entry in whole.entries)
            return replace(whole, decision=opened.decision, shown=whole.shown if lifts else None, missing=missing)
        if whole.decision.verdict is Verdict.REQUIRE_APPROVAL:
            return replace(whole, decision=self._judge.refused(standing, UNASKED, whole.decision))
        if opened.approved and withheld(approvals, opened.binding, opened.call.id):
            return replace(whole, decision=self._judge.refused(standing, UNSEEN, whole.decision))
        return whole

    def _no_tool(self, standing: DecisionContext, name: str) -> Decision:
        """Return the decision on a call of an unknown tool; it names the most similar one offered to its asker."""
        decision = self._judge.settled(self._judge.request(Hook.PRE_TOOL_CALL, standing), standing)
        like = nearest(name, (tool.name for tool in self._judge.offered(standing)))
        outcomes = (
            replace(outcome, message=f"{NO_TOOL}{like}") if outcome.message == NO_TOOL else outcome
            for outcome in decision.outcomes
        )
        return replace(decision, outcomes=tuple(outcomes))

    def _keeps(self, made: CallDecision, taken: Asked) -> bool:
        """Say whether the result of a call is held even if it is bounded."""
        return made.accepted is None or kept(self._judge.document, made.accepted[0], taken)

    def _judged(
        self,
        standing: DecisionContext,
        made: CallDecision,
        tool: Tool,
        *,
        taken: Asked,
        approvals: tuple[Approval, ...],
    ) -> CallDecision:
        """Decide on a call at every hook it crosses: openly, or as a whole once the open decision is made.

        Raises RefusedCallError: as `_prepared`.
        """
        given = taken.opened() if made.open is None else taken.whole()
        context = tool_context(self._judge, standing, made)
        arguments = checked(tool, given)
        declared = unlisted(tool.declare(arguments, context), taken)
        known = declared_facts(tool, declared)
        facts = tightened(self._judge.document, known, declared.result)
        if taken.condition is not None:
            check_effect(tool, facts, declared, self._judge.document)
        offered = releasing.offer(declared, facts)
        sink, made = releasing.bound(tool, offered), replace(made, accepted=(tool, arguments))
        made = self._bound(standing, made, taken, facts, declared=declared, sink=sink)
        request = self._requested(standing, made, facts, taken, declared=declared, accepted=(tool, arguments))
        request = declared_by(request, known, declared)
        request = self._judge.showing(request, *texts(given, arguments), standing=standing)
        decision, lifted = self._decided(standing, made, facts, request, declared=declared, approvals=approvals)
        made = lifted.on(grants.offering(self._judge.document, standing, decision, made=made, declared=declared))
        # Without an effect nothing leaves: the arguments of such a call stay in the session, and are kept whole.
        if decision.redact and (tool.effect is not Effect.NONE or facts.server):
            arguments = self._redacted(tool, context, declared, decision=decision, given=given)
        label = self._judge.document.top if facts.result is None else facts.result.join(made.carried)
        return replace(
            releasing.marked(made, offered, decision),
            decision=put_to(self._judge.document, decision, standing),
            label=label,
            floor=label if made.open is None else made.floor,
            accepted=(tool, arguments),
            hook=Hook.MCP_TOOL_CALL if facts.server else Hook.PRE_TOOL_CALL,
        )

    def _requested(
        self,
        standing: DecisionContext,
        made: CallDecision,
        facts: ToolFacts,
        taken: Asked,
        *,
        declared: CallFacts,
        accepted: tuple[Tool, Arguments],
    ) -> Request:
        """Return the request about an `accepted` call."""
        (tool, arguments), offered = accepted, releasing.offer(declared, facts)
        given = taken.opened() if made.open is None else taken.whole()
        request = replace(
            self._judge.request(Hook.PRE_TOOL_CALL, standing),
            tool=facts,
            sink=expected(self._judge.document, declared),
            content="\n".join(texts(given, arguments)),
            arguments=tuple(as_json(arguments).items()),
            held=made.hold,
            carried=made.leaving,
            releasable=offered is not None and releasing.may_begin(standing, made, arguments, given),
        )
        # As the model gave them: by a handle, and not by the identifier behind it.
        chosen = arguments if made.open is None else checked(tool, taken.opened())
        document = self._judge.document
        request = referring(request, document.bounds(tool.name), taken, heard=bool(standing.endorsed))
        if not standing.endorsed:
            return request
        return replace(request, steered=steered(document, tool.name, chosen, standing.now))

    def _decided(
        self,
        standing: DecisionContext,
        made: CallDecision,
        facts: ToolFacts,
        request: Request,
        *,
        declared: CallFacts,
        approvals: tuple[Approval, ...],
    ) -> tuple[Decision, Lifted]:
        """Return as `_answered`, with a refusal in place of a question that nobody may answer."""
        answered = partial(self._answered, standing, made, facts, declared=declared, approvals=approvals)
        decision, lifted = answered(request)
        concerns = releasing.concerns(decision, lifted.released)
        if concerns and not self._may_be_released(standing, made, decision, request):
            decision, lifted = answered(replace(request, releasable=False))
        openly = made.open is None and decision.verdict is Verdict.REQUIRE_APPROVAL
        if openly and not self._may_be_asked(standing, decision, made.carried, request.content):
            decision = self._judge.unapproved(standing, nobody(standing), decision)
        return decision, lifted

    def _answered(
        self,
        standing: DecisionContext,
        made: CallDecision,
        facts: ToolFacts,
        request: Request,
        *,
        declared: CallFacts,
        approvals: tuple[Approval, ...],
    ) -> tuple[Decision, Lifted]:
        """Return the decision on a call, with the rules that people lifted for it: by an approval, else by a grant."""
        decision = self._crossed(standing, facts, request, declared=declared)
        if made.asks_again:
            decision = _in_doubt(decision, MAY_BE_DONE)
        elif standing.truncated and made.outward:
            if made.hold:
                # Whether it was made is shown only to readers who may know of it, so no people are asked.
                return self._judge.refused(standing, MAY_BE_LOST, decision), NOTHING
            decision = _in_doubt(decision, MAY_BE_LOST)
        if decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return decision, NOTHING
        approval = live(
            self._judge.document,
            approvals,
            bound=made.binding,
            call=made.call.id,
            asked=asking(decision),
            now=standing.now,
        )
        if approval is not None:
            lifted = Lifted(approval.rules, to_spend(approval), released=releasing.released(approval))
        elif any(one.call == made.call.id and not one.is_question for one in approvals):
            # An answer to this very call stands: a grant given beside it does not undo a refusal.
            lifted = NOTHING
        else:
            lifted = grants.lifting(self._judge.document, standing, decision, made=made, declared=declared)
        if lifted.rules:
            request = replace(request, released=lifted.released)
            decision = self._crossed(standing, facts, request, declared=declared, lifted=lifted.rules)
        return decision, lifted

    def _bound(
        self,
        standing: DecisionContext,
        made: CallDecision,
        taken: Asked,
        facts: ToolFacts,
        *,
        declared: CallFacts,
        sink: tuple[str, ...],
    ) -> CallDecision:
        """Return a call with its facts, the present meaning of its recipients, and the binding for its approval.

        A session's id always means the same session. `sink` tells where it could be released to.
        """
        said = None if declared.says is None else declared.says[0]
        places = (place for place in (said, declared.tells) if place is not None and place.channel != SESSION)
        leads = tuple(meaning(self._judge.document, place) for place in places)
        return replace(
            made,
            leads=leads,
            binding=binding(standing, made.call, taken.depends, (*leads, *sink)),
            outward=facts.consequential and not declared.once,
            account_of=declared.account_of,
            raises=declared.raises,
            shows=declared.shows,
            returns=() if self._keeps(made, taken) else declared.returns,
            fields=declared.returns,
            spared=is_spared(standing, facts, made.carried, hold=made.hold),
        )

    def _crossed(
        self,
        standing: DecisionContext,
        facts: ToolFacts,
        request: Request,
        *,
        declared: CallFacts,
        lifted: tuple[str, ...] = (),
    ) -> Decision:
        """Decide on a call at every hook it crosses, with the rules lifted that people approved."""
        judge = partial(self._judge.settled, standing=standing)
        decision = self._judge.lifting(request, lifted, judge)
        if facts.server:
            served = replace(request, hook=Hook.MCP_TOOL_CALL)
            decision = combined(decision, self._judge.lifting(served, lifted, judge))
        for name, host in declared.secrets:
            decision = combined(decision, self._judge.unlock(standing, facts, name, host))
        if declared.says is None:
            return decision
        return self._output.with_text(standing, decision, declared.says, approved=lifted, carried=request.carried)

    def _redacted(
        self,
        tool: Tool,
        context: ToolContext,
        declared: CallFacts,
        *,
        decision: Decision,
        given: Mapping[str, JsonValue],
    ) -> Arguments:
        """Return a call's arguments with the parts replaced that a rule wants replaced.

        Raises RefusedCallError: a part cannot be replaced, or the rest would be another call.
        """
        replaced = changed(given, lambda text: self._judge.masks.replaced(text, decision))
        self._check_replaced(tuple(strings(replaced)), decision)
        arguments = checked(tool, replaced)
        self._check_replaced(texts(replaced, arguments), decision)
        if reaches(tool.declare(arguments, context)) != reaches(declared):
            raise RefusedCallError("with parts of its arguments replaced this would be another call")
        return arguments

    def _check_replaced(self, left: tuple[str, ...], decision: Decision) -> None:
        """Check that none of the parts that a rule wants replaced is left.

        Raises RefusedCallError: one is left: a number, a field's name, another way to write a text, or two texts that
        match the rule only together.
        """
        if self._judge.policy.engine.finds(("\n".join(left), *seen(left)), decision):
            raise RefusedCallError("a rule would replace parts of its arguments that cannot be replaced")

    def _may_be_released(
        self, standing: DecisionContext, made: CallDecision, decision: Decision, request: Request
    ) -> bool:
        """Say whether a call that waits for a release may wait, or one that has it may run; else it stays refused.

        One that was begun before never runs again, so it is told of as such.
        """
        if made.begun:
            return True
        if not releasing.possible(made, decision):
            return False
        if made.open is not None or decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return True
        return self._may_be_asked(standing, decision, made.carried, request.content)

    def _may_be_asked(self, standing: DecisionContext, decision: Decision, carried: Label, said: str) -> bool:
        """Say whether a principal may answer a question about a call, where it is asked.

        None may if the question itself may not be said there.
        """
        leaving, places = standing.taint.join(carried), [standing.destination]
        if standing.home.channel in UNREAD:
            chats = labelling.private_places(self._judge.document, standing.asker, leaving)
            places = [labelling.expected(self._judge.document, chat) for chat in chats]
        spoken = (
            self._output.speak(standing, there, said, approved=OURS, carried=carried).decision for there in places
        )
        return any(one.verdict is Verdict.ALLOW for one in spoken) and someone_may_answer(
            self._judge.document, decision, replace(standing, taint=leaving)
        )


def _in_doubt(decision: Decision, why: str) -> Decision:
    """Return a decision on a call with an unknown outcome: people are asked whether to make it again."""
    remedies = (Remedy.APPROVER,)
    asks = RuleOutcome(OUTCOME, Verdict.REQUIRE_APPROVAL, fixed=True, message=why, remedies=remedies)
    asked = replace(decision, verdict=Verdict.REQUIRE_APPROVAL, outcomes=(asks,), remedies=remedies, redact=())
    return combined(decision, asked)


def nobody(standing: DecisionContext) -> str:
    """Return why no person is asked, and the next step where there is one."""
    return NOBODY_ALONE if standing.home.channel in UNREAD else NOBODY
