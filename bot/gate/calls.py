"""What a tool call would be: decided before anything is touched, or merely simulated.

Every call is decided at hook PRE_TOOL_CALL, one of an MCP server's tools at MCP_TOOL_CALL too.
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
from bot.access.approvals import asking, binding, live, put_to, someone_may_answer, to_spend, withheld
from bot.access.decision_context import Call, DecisionContext, key
from bot.access.recipients import meaning
from bot.core.errors import StoreError
from bot.gate.judge import Judge, call_facts, seen
from bot.gate.output import OutputGate
from bot.gate.readers import Readers
from bot.gate.results import MAY_GO_ON, NOT_KNOWN, CallDecision
from bot.sessions.approvals import Approval
from bot.sessions.background.delegation import SESSION
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import OURS
from bot.sessions.messages import named
from bot.tools.arguments import as_json, changed, checked, strings, texts
from bot.tools.base import (
    Arguments,
    CallFacts,
    Foresees,
    Inquires,
    RefusedCallError,
    Tool,
    ToolCaller,
    ToolContext,
    ToolSession,
)
from bot.tools.references import Asked, asked, mentions
from policy import explain
from policy.decision import Decision, Remedy, RuleOutcome, Verdict, combined
from policy.errors import nearest
from policy.fixed import NO_TOOL, OUTCOME
from policy.labels import Label
from policy.request import Effect, Hook, Request, ToolFacts

NOBODY: Final = "nobody may approve this"
NOBODY_ALONE: Final = (
    "nobody may approve this: a background session asks the person who set it going, alone, in a private chat cleared "
    "for what it has read; have the conversation itself make this call"
)
UNSEEN: Final = "people were not shown what is referred to, so they did not approve it"
UNDECIDED: Final = "this call could not be decided"
ELSEWHERE: Final = "a reference may stand for what is said, not for where it goes"
UNASKED: Final = "what is referred to needs an approval, and to ask for one would tell of it"
REFERS: Final = "what comes of a call that refers to something is held; `admit` reads it afterwards"
REFERRED: Final = "what is referred to"
MAY_BE_DONE: Final = "this call was begun before and was interrupted, so it may have taken effect already"

_LOGGER: Final = logging.getLogger(__name__)
_DOWN: Final = "no_write_down"
_BY_READERS: Final = frozenset({Remedy.RECLASSIFY, Remedy.CLEAR_READER, Remedy.VOUCH})
"""The remedies of which it takes the readers of an address to tell whether they work."""

_DEPENDS: Final = MappingProxyType(
    {
        Effect.READ: ("the label of what is read",),
        Effect.SEND: ("who reads there, or where it leads, at the moment of sending",),
    }
)
"""What only the result or the send can tell, for `simulate`."""


UNKNOWN_TOOL: Final = "unknown"
"""What stands in the audit for the name of a tool that there is not."""


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

        `approvals` are the session's; one that is live and bound to exactly this call lifts what an
        approval can lift. A call that names nothing that could run is refused by `fails_closed`. `begun` tells that the
        log has the call begun and no result of it: one that is consequential needs an approval to be made again. A call
        by another name of a tool is a call of the tool from here on.
        """
        call = self.named(call)
        tool = self._judge.tool(standing, call.tool)
        # One that can be decided says so itself; of one that cannot any more, nothing is told that it may have been.
        hold = begun and (self._judge.document.holds(call.tool) or mentions(call.arguments))
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
            # Whatever a tool's declaration or its arguments do, the answer is BLOCK.
            _LOGGER.exception("a call could not be decided")
            return made

    async def read_call(self, call: Call) -> None:
        """Read long texts of a call in a thread, before `prepare` decides on them."""
        # What cannot be written as texts is no call.
        with suppress(ValueError, RecursionError):
            await self._judge.read_ahead(tuple(strings(dict(call.arguments or {}))), Hook.PRE_TOOL_CALL)

    def named(self, call: Call) -> Call:
        """Return a call by another name of a tool as a call of the tool, with the arguments that the name stands for.

        Any other is returned as it is. Rules, approvals and the audit know the tool alone.
        """
        if call.arguments is None or call.tool not in self._judge.aliases:
            return call
        tool, fixed = self._judge.aliases[call.tool]
        return replace(call, tool=tool, arguments={**call.arguments, **fixed})

    def known(self, name: str) -> str:
        """Return the name of a tool as the audit keeps it: one that there is not was made up, and may be any text."""
        return name if name in self._judge.tools else UNKNOWN_TOOL

    def reaches_others(self, call: Call) -> bool:
        """Say whether a call must wait for the reads before it: it writes or sends, or names no tool there is."""
        tool = self._judge.tools.get(call.tool)
        return tool is None or tool.effect in {Effect.SEND, Effect.WRITE}

    async def foresee(self, standing: DecisionContext, prepared: CallDecision) -> CallDecision:
        """Decide on what a call would say once more, against who reads there now (hook PRE_OUTPUT).

        So neither people nor a model are promised what would be withheld: a call that would be is refused before
        anybody is asked about it. Of one that is refused already, only what really helps there is offered. A call whose
        result is to be told to another one later is refused if nothing that follows from it can flow there. What the
        call refers to is not looked at, as that tells of it.
        """
        decision = prepared.decision
        settled = decision.verdict is Verdict.BLOCK and _BY_READERS.isdisjoint(decision.remedies)
        if prepared.accepted is None or prepared.open is not None or settled:
            return prepared
        tool, arguments = prepared.accepted
        declared = tool.declare(arguments, self.tool_context(standing, prepared))
        says = declared.says if declared.tells is None else (declared.tells, "")
        if says is None:
            return prepared
        lifted = prepared.approved or asking(decision)
        spoken = self._output.speak(standing, await self._readers.prospect(says[0]), says[1], approved=lifted).decision
        if spoken.verdict is not Verdict.BLOCK or (declared.tells is not None and _DOWN not in spoken.rules):
            return prepared
        return replace(prepared, decision=combined(decision, spoken))

    async def inquire(self, standing: DecisionContext, prepared: CallDecision) -> CallDecision:
        """Return a call that may be made with what it wants to know of the asker, unless that is over.

        Its tool may look at what the call may read, so this comes after the decision. If it fails the call is refused.

        Raises StoreError: what the tool looks at cannot be read.
        """
        if prepared.accepted is None or prepared.asked is not None or prepared.decision.verdict not in MAY_GO_ON:
            return prepared
        tool, arguments = prepared.accepted
        if not isinstance(tool, Inquires):
            return prepared
        try:
            inquiry = await tool.inquiry(arguments, self.tool_context(standing, prepared))
        except StoreError:
            raise
        except Exception:
            _LOGGER.exception("a call could not be decided", extra={"tool": tool.name})
            return replace(prepared, decision=self._judge.refused(standing, UNDECIDED))
        return replace(prepared, inquiry=inquiry)

    async def simulate(
        self, standing: DecisionContext, name: str, arguments: Mapping[str, JsonValue], reader: Label
    ) -> dict[str, JsonValue]:
        """Report what is decided about a call, as far as `reader` may know; nothing is written or run."""
        prepared = await self.foresee(standing, self.prepare(standing, Call("simulated", name, arguments)))
        report = cast("dict[str, JsonValue]", explain.as_dict(prepared.told, reader))
        if prepared.accepted is not None and prepared.told.verdict is not Verdict.BLOCK:
            tool, given = prepared.accepted
            depends = [] if prepared.open is None else [REFERRED]
            if isinstance(tool, Foresees):
                # The label of what is referred to may be above its floor, and that is not told.
                known = prepared if prepared.open is None else replace(prepared, carried=prepared.floor)
                depends += await tool.foresee(given, self.tool_context(standing, known))
            report["depends"] = [*depends, *_DEPENDS.get(tool.effect, ())]
        return report

    def _prepared(
        self, standing: DecisionContext, made: CallDecision, tool: Tool, approvals: tuple[Approval, ...]
    ) -> CallDecision:
        """Decide on a call of a tool there is: openly first, then with what it refers to.

        Raises RefusedCallError: it cannot be made as it stands, or would be another call once redacted.
        """
        taken = asked(tool, made.call.arguments, standing.held)
        made = replace(made, hold=self._holds(tool, taken), carried=taken.floor, known=taken.floor)
        opened = self._judged(standing, made, tool, taken=taken, approvals=approvals)
        if not taken.refers or opened.decision.verdict is Verdict.BLOCK:
            return opened
        whole = replace(opened, carried=taken.label, shown=taken.shown(), open=opened.decision)
        try:
            _check_route(tool, taken, self.tool_context(standing, whole))
            whole = self._judged(standing, whole, tool, taken=taken, approvals=approvals)
        except RefusedCallError as refusal:
            whole = replace(whole, decision=self._judge.refused(standing, str(refusal)))
        except Exception:
            _LOGGER.exception("a call could not be decided", extra={"tool": tool.name})
            whole = replace(whole, decision=self._judge.refused(standing, UNDECIDED))
        return self._asked_openly(standing, opened, whole, approvals)

    def _asked_openly(
        self, standing: DecisionContext, opened: CallDecision, whole: CallDecision, approvals: tuple[Approval, ...]
    ) -> CallDecision:
        """Return a call as decided as a whole, but for who is asked, and about what: that is seen, so it is open.

        What refuses the call as a whole does so once they have answered, and spends their approval. That counts for
        nothing that they were not shown.
        """
        whole, asks = replace(whole, use=opened.use), asking(whole.decision)
        if opened.decision.verdict is Verdict.REQUIRE_APPROVAL:
            lifts = whole.decision.verdict is not Verdict.BLOCK and set(asks).issubset(asking(opened.decision))
            return replace(whole, decision=opened.decision, shown=whole.shown if lifts else None)
        if whole.decision.verdict is Verdict.REQUIRE_APPROVAL:
            return replace(whole, decision=self._judge.refused(standing, UNASKED, whole.decision))
        if opened.approved and withheld(approvals, opened.binding, opened.call.id):
            return replace(whole, decision=self._judge.refused(standing, UNSEEN, whole.decision))
        return whole

    def _no_tool(self, standing: DecisionContext, name: str) -> Decision:
        """Return the decision on a call of a tool there is not; it names the nearest that its asker is offered."""
        decision = self._judge.settled(self._judge.request(Hook.PRE_TOOL_CALL, standing), standing)
        like = nearest(name, (tool.name for tool in self._judge.offered(standing)))
        outcomes = (
            replace(outcome, message=f"{NO_TOOL}{like}") if outcome.message == NO_TOOL else outcome
            for outcome in decision.outcomes
        )
        return replace(decision, outcomes=tuple(outcomes))

    def _holds(self, tool: Tool, taken: Asked) -> bool:
        """Say whether a call's result stays out of the context: by policy, as the model asks, or for what it refers to.

        A tool may give back what it was given, and whether a call is made may depend on that. So the result of a call
        that refers to something is held, whatever its label: if it entered the context, the session would rise where
        the call is made and stay where it is refused (ADR 0008).

        Raises RefusedCallError: the model asks for what is held.
        """
        if taken.hold is False and self._judge.document.holds(tool.name):
            raise RefusedCallError(f"the policy keeps what `{tool.name}` returns out of the context")
        if taken.hold is False and taken.refers:
            raise RefusedCallError(REFERS)
        return bool(taken.hold) or bool(taken.refers) or self._judge.document.holds(tool.name)

    def _judged(
        self,
        standing: DecisionContext,
        made: CallDecision,
        tool: Tool,
        *,
        taken: Asked,
        approvals: tuple[Approval, ...],
    ) -> CallDecision:
        """Decide on a call, on every hook it crosses: openly, or as a whole once that is decided.

        Raises RefusedCallError: as `_prepared`.
        """
        given, context = taken.opened() if made.open is None else taken.whole(), self.tool_context(standing, made)
        arguments = checked(tool, given)
        declared = tool.declare(arguments, context)
        made = self._bound(standing, made, taken, declared)
        facts = call_facts(self._judge.document, tool, declared)
        made = replace(made, accepted=(tool, arguments), outward=facts.consequential and not declared.once)
        leads = declared.tells if declared.says is None else declared.says[0]
        said = texts(given, arguments)
        request = replace(
            self._judge.request(Hook.PRE_TOOL_CALL, standing),
            tool=facts,
            sink=None if leads is None else labelling.expected(self._judge.document, leads),
            content="\n".join(said),
            arguments=tuple(as_json(arguments).items()),
            held=made.hold,
            carried=made.carried,
        )
        request = self._judge.showing(request, *said, standing=standing)
        decision, approval = self._answered(standing, made, facts, request, declared=declared, approvals=approvals)
        openly = made.open is None and decision.verdict is Verdict.REQUIRE_APPROVAL
        if openly and not self._may_be_asked(standing, decision, made.carried, request.content):
            decision = self._judge.unapproved(standing, nobody(standing), decision)
        # Without an effect nothing leaves: what such a call is asked with stays in the session, and is asked whole.
        if decision.redact and (tool.effect is not Effect.NONE or facts.server):
            arguments = self._redacted(tool, context, declared, decision=decision, given=given)
        label = self._judge.document.top if facts.result is None else facts.result.join(made.carried)
        return replace(
            made,
            decision=put_to(self._judge.document, decision, standing),
            label=label,
            floor=label if made.open is None else made.floor,
            use=to_spend(approval),
            accepted=(tool, arguments),
            approved=() if approval is None else approval.rules,
            hook=Hook.MCP_TOOL_CALL if facts.server else Hook.PRE_TOOL_CALL,
        )

    def _answered(
        self,
        standing: DecisionContext,
        made: CallDecision,
        facts: ToolFacts,
        request: Request,
        *,
        declared: CallFacts,
        approvals: tuple[Approval, ...],
    ) -> tuple[Decision, Approval | None]:
        """Return the decision on a call, with the approval that people gave of it if that changes anything."""
        decision = self._crossed(standing, facts, request, declared=declared)
        if made.asks_again:
            decision = _in_doubt(decision)
        if decision.verdict is not Verdict.REQUIRE_APPROVAL:
            return decision, None
        approval = live(
            self._judge.document,
            approvals,
            bound=made.binding,
            call=made.call.id,
            asked=asking(decision),
            now=standing.now,
        )
        if approval is not None:
            decision = self._crossed(standing, facts, request, declared=declared, lifted=approval.rules)
        return decision, approval

    def _bound(self, standing: DecisionContext, made: CallDecision, taken: Asked, declared: CallFacts) -> CallDecision:
        """Return a call with what its recipients mean now, and what an approval for it must be bound to.

        A session's id means one session for ever.
        """
        said = None if declared.says is None else declared.says[0]
        places = (place for place in (said, declared.tells) if place is not None and place.channel != SESSION)
        leads = tuple(meaning(self._judge.document, place) for place in places)
        return replace(made, leads=leads, binding=binding(standing, made.call, taken.refers, leads))

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
        """Return a call's arguments with what a rule wants replaced.

        Raises RefusedCallError: it cannot be replaced, or what is left would be another call.
        """
        replaced = changed(given, lambda text: self._judge.masks.replaced(text, decision))
        self._check_replaced(tuple(strings(replaced)), decision)
        arguments = checked(tool, replaced)
        self._check_replaced(texts(replaced, arguments), decision)
        if _reaches(tool.declare(arguments, context)) != _reaches(declared):
            raise RefusedCallError("with parts of its arguments replaced this would be another call")
        return arguments

    def _check_replaced(self, left: tuple[str, ...], decision: Decision) -> None:
        """Check that nothing is left of what a rule wants replaced.

        Raises RefusedCallError: a number, a field's name, another way to write a text, or two texts that only together
        are what the rule looks for.
        """
        if self._judge.policy.engine.finds(("\n".join(left), *seen(left)), decision):
            raise RefusedCallError("what a rule would replace in its arguments cannot be replaced there")

    def _may_be_asked(self, standing: DecisionContext, decision: Decision, carried: Label, said: str) -> bool:
        """Say whether anybody may answer a question about a call, where it is asked.

        Nobody may where the question itself may not be said.
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

    def tool_context(self, standing: DecisionContext, made: CallDecision) -> ToolContext:
        """Return what a tool is told: it works at the join of the taint with what the call carries."""
        by_model = bool(standing.turn) or standing.by_model
        caller = ToolCaller(
            principal=standing.principal,
            asker=standing.asker,
            role=standing.role,
            ceiling=self._judge.ceiling(standing),
            reader=standing.taint if by_model else standing.reader,
            by_model=by_model,
        )
        session = ToolSession(
            sid=standing.sid,
            generation=standing.generation,
            turn=standing.turn,
            home=standing.home,
            taint=standing.taint.join(made.carried),
            visibility=standing.visibility,
            addresses=standing.addresses,
            held=standing.held,
            model=standing.model,
            agent=standing.agent,
            run=standing.run,
            claim=standing.claim,
            authors=named(standing.others),
        )
        name = key(standing, made.call)
        document = self._judge.document
        return ToolContext(
            caller,
            session,
            name,
            standing.now,
            document,
            made.call.id,
            asked=made.asked,
            unasked=made.unasked,
            own_level=made.call.own_level,
        )


def _in_doubt(decision: Decision) -> Decision:
    """Return a decision on a call of which nobody knows whether it took effect: people are asked to make it again."""
    remedies = (Remedy.APPROVER,)
    asks = RuleOutcome(OUTCOME, Verdict.REQUIRE_APPROVAL, fixed=True, message=MAY_BE_DONE, remedies=remedies)
    asked = replace(decision, verdict=Verdict.REQUIRE_APPROVAL, outcomes=(asks,), remedies=remedies, redact=())
    return combined(decision, asked)


def nobody(standing: DecisionContext) -> str:
    """Return why nobody is asked, and what to do where that can be told."""
    return NOBODY_ALONE if standing.home.channel in UNREAD else NOBODY


def _check_route(tool: Tool, taken: Asked, context: ToolContext) -> None:
    """Check that what a call refers to changes its words alone: data does not choose what is read or where it goes.

    Raises RefusedCallError: it does.
    """
    if len({_reaches(tool.declare(checked(tool, given), context)) for given in (taken.opened(), taken.whole())}) > 1:
        raise RefusedCallError(ELSEWHERE)


def _reaches(declared: CallFacts) -> CallFacts:
    """Return what a call reads, uses and where it leads, without the words it says."""
    return replace(declared, says=None if declared.says is None else (declared.says[0], ""))
