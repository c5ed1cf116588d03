"""One model step's tool calls, taken through the gate.

Reads run together. A call that reaches others, that people were asked about, or that takes an entry of a held list runs
alone: it waits for the reads before it, and is decided at the taint that they left. Each call is decided and written
down before it runs, and its result before the model sees it (laws `every_effect_has_a_decision`,
`every_tool_call_has_a_result`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
from pydantic import JsonValue

from bot.access.approvals import DENIED, UNANSWERED
from bot.access.decision_context import Call, DecisionContext
from bot.agent.call_runs import CallRuns
from bot.agent.context import Context
from bot.agent.fitting import Fitted, fitted
from bot.agent.room import Room
from bot.core.errors import GrantEndedError, StoreError
from bot.core.tracing import OpenSpan, span
from bot.delivery.alternatives import Alternatives, question
from bot.delivery.asker_questions import NOWHERE, AskerQuestions
from bot.delivery.outbox import Outbox
from bot.gate.calls import UNKNOWN_TOOL
from bot.gate.gate import Gate
from bot.gate.results import (
    MAY_GO_ON,
    CallDecision,
    ResultDecision,
    decision_row,
    denial,
    ended_rows,
    explained,
    traced,
)
from bot.history import event_log
from bot.sessions.alternatives import Alternative
from bot.sessions.approvals import ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.log.event_types import ToolOutcome, ToolResult
from bot.sessions.log.events import NewEvent
from bot.sessions.models import Change
from bot.sessions.refs import CallRef, HeldRef
from bot.tools.base import Inquiry, Result
from bot.tools.references import notice, referred
from bot.turn import OpenTurn
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC
from policy.request import Hook

OUTCOME_UNKNOWN: Final = (
    "outcome unknown: this call was interrupted, and nobody knows whether it took effect; it was not repeated"
)
MOST_ASKED: Final = 10
"""How many calls one question to people may carry: more would not be read, only waved through."""

MOST_OPEN: Final = 3
"""How many questions of an agent may be open at once: those of one step."""

MOST_QUESTIONS: Final = 6
"""How often an agent may ask its asker in one turn: a person must not be worn down."""

TOO_MANY_QUESTIONS: Final = (
    f"nobody was asked: a step may ask {MOST_OPEN} questions, and a turn {MOST_QUESTIONS}; go on without an answer"
)
ENDS_ALONE: Final = "nobody was asked: with `end_turn` a question is a step of its own, and only in a conversation"

NOT_ASKED: Final = f"one question to people carries {MOST_ASKED} calls, so this one was not asked about"


class ToolRunner:
    """Runs the calls of one model step."""

    def __init__(
        self,
        gate: Gate,
        room: Room,
        outbox: Outbox,
        alternatives: Alternatives,
        *,
        runs: CallRuns,
        questions: AskerQuestions,
    ) -> None:
        self._gate = gate
        self._room = room
        self._outbox = outbox
        self._alternatives = alternatives
        self._runs = runs
        self._questions = questions

    async def run(self, turn: OpenTurn, context: Context, calls: tuple[Call, ...]) -> tuple[CallDecision, ...]:
        """Run the calls that may run, put the results into the context, and return the calls that wait for people.

        A result that is larger than the rest of the window is put there as far as it fits, with a note on how to read
        on. The returned calls include those in whose place the asker is to be offered an alternative.
        """
        turn.open_calls = {call.id: call for call in calls}
        turn.begun_calls = context.decided
        turn.inquiries = set()
        waiting = dict[str, CallDecision]()
        left = calls
        while left:
            for group in self._groups(left, frozenset(one.call for one in turn.approvals if not one.is_question)):
                waiting |= {prepared.call.id: prepared for prepared in await self._together(turn, context, group)}
            # A read that came after it may have raised the label at which a waiting call was decided.
            taint = turn.standing.taint
            left = tuple(
                call for call in left if call.id in turn.open_calls and waiting[call.id].decision.label_before != taint
            )
        asked = await self._planned(
            turn, tuple(prepared for call, prepared in waiting.items() if call in turn.open_calls)
        )
        questions = tuple(one for one in asked if one.waits)
        others = tuple(one for one in asked if not one.waits)
        for prepared in others[MOST_ASKED:]:
            async with turn.lock:
                await self._refused(turn, context, prepared, NOT_ASKED)
        return (*questions, *others[:MOST_ASKED])

    async def _planned(self, turn: OpenTurn, waiting: tuple[CallDecision, ...]) -> tuple[CallDecision, ...]:
        """Return the calls of a step that wait, each as it will stand once the ones before it are done.

        People approve them together and they then run in this order. The first may make the session UNTRUSTED, and an
        approval is bound to the label. Levels are not foreseen: a call after one that raises them is asked about again.
        """
        planned, standing = list[CallDecision](), turn.standing
        for prepared in waiting:
            asked = prepared
            if standing.taint != turn.standing.taint and prepared.decision.verdict is Verdict.REQUIRE_APPROVAL:
                later = self._gate.calls.prepare(standing, prepared.call, turn.approvals, begun=prepared.begun)
                later = await self._gate.calls.foresee(standing, later)
                asked = later if later.decision.verdict is Verdict.REQUIRE_APPROVAL else prepared
            planned.append(asked)
            after = asked.told.label_after
            if after.flows_to(standing.taint):
                standing = replace(standing, taint=standing.taint.join(after))
        return tuple(planned)

    async def _together(self, turn: OpenTurn, context: Context, group: list[Call]) -> list[CallDecision]:
        """Take calls through at once and return those that wait for people.

        Raises the error of the first of them, the store's errors before others.
        """
        asked = list[CallDecision]()
        try:
            async with anyio.create_task_group() as tasks:
                for call in group:
                    tasks.start_soon(self._one, turn, context, call, asked)
        except ExceptionGroup as group_error:
            errors = sorted(group_error.exceptions, key=lambda error: not isinstance(error, StoreError))
            raise errors[0] from group_error
        return asked

    async def _one(self, turn: OpenTurn, context: Context, call: Call, asked: list[CallDecision]) -> None:
        """Take one call through; append it to `asked` if it waits for people."""
        with span("tool") as told:
            await self._taken(turn, context, call, asked=asked, told=told)

    async def _taken(
        self, turn: OpenTurn, context: Context, call: Call, *, asked: list[CallDecision], told: OpenSpan
    ) -> None:
        await self._gate.calls.read_call(call)
        while True:
            try:
                decided = await self._decided(turn, context, call, asked=asked, told=told)
            except GrantEndedError:
                # A person took the grant back meanwhile: the call is decided again without it.
                continue
            break
        if decided is None:
            return
        prepared, standing = decided

        async def record(hook: Hook, decision: Decision, told: Mapping[str, JsonValue]) -> None:
            async with turn.lock:
                await self._further(turn, prepared, hook, decision=decision, told=told)

        async def keep(result: Result) -> None:
            turn.usage = turn.usage.plus(result.usage)
            async with turn.lock:
                response = await self._gate.results.respond(turn.standing, prepared, result)
                await self._responded(turn, context, prepared, response)

        noticed = prepared.outward or self._gate.calls.reaches_others(call)
        await self._runs.carry_out(turn, partial(self._gate.run, standing, prepared, record), keep, noticed=noticed)

    async def _decided(
        self, turn: OpenTurn, context: Context, call: Call, *, asked: list[CallDecision], told: OpenSpan
    ) -> tuple[CallDecision, DecisionContext] | None:
        """Decide on a call and write that down; return it if it runs now, with the session as it was decided for.

        Raises GrantEndedError: a grant that covered it was taken back, so nothing was written.
        """
        async with turn.lock:
            begun = call.id in context.decided
            prepared = self._gate.calls.prepare(turn.standing, call, turn.approvals, begun=begun)
            prepared = await self._gate.calls.foresee(turn.standing, prepared)
            prepared = await self._gate.counted(turn.standing, prepared)
            prepared, heard = self._heard(turn, await self._gate.calls.inquire(turn.standing, prepared))
            _trace(told, prepared, answered(turn, prepared.call.id))
            if not await self._may_run(turn, context, prepared, asked):
                return None
            if prepared.inquiry is not None:
                prepared = await self._inquired(turn, prepared, prepared.inquiry)
                if prepared.waits:
                    asked.append(prepared)
                    return None
            standing = _before(turn, context, prepared)
            await self._allowed(turn, context, prepared, *heard)
            return prepared, standing

    async def _may_run(
        self, turn: OpenTurn, context: Context, prepared: CallDecision, asked: list[CallDecision]
    ) -> bool:
        """Say whether a call runs now; any other has a result, or is appended to `asked` as it ends the step."""
        if not prepared.in_doubt:
            overshot, offer = await self._overshot(turn, prepared)
            if overshot:
                asked.append(replace(prepared, overshot=True, offer=offer))
                return False
        elif not prepared.asks_again:
            await self._refused(turn, context, prepared, OUTCOME_UNKNOWN)
            return False
        refusal = self._refusal(turn, prepared)
        if refusal is not None:
            await self._refused(turn, context, prepared, refusal)
            return False
        if prepared.decision.verdict is Verdict.REQUIRE_APPROVAL:
            asked.append(prepared)
            return False
        return True

    def _heard(self, turn: OpenTurn, prepared: CallDecision) -> tuple[CallDecision, tuple[AuditRow, ...]]:
        """Decide on a person's answer entering the context (hook PRE_CONTEXT_INJECTION), with the row of that.

        A call whose answer may not enter is refused; else it goes on with the answer as it may be read.
        """
        standing, question = turn.standing, prepared.asked
        answer = None if question is None else question.answer
        if question is None or answer is None or prepared.decision.verdict not in MAY_GO_ON:
            return prepared, ()
        hook = Hook.PRE_CONTEXT_INJECTION
        spoken = self._gate.requests.admit(standing, answer.label, str(answer.value))
        row = decision_row(standing, hook, spoken.decision, question=question.id)
        if spoken.decision.verdict not in MAY_GO_ON:
            return replace(prepared, decision=spoken.decision, hook=hook), ()
        if isinstance(answer.value, str):
            question = replace(question, answer=replace(answer, value=spoken.text))
        return replace(prepared, asked=question), (row,)

    async def _inquired(self, turn: OpenTurn, prepared: CallDecision, inquiry: Inquiry) -> CallDecision:
        """Return a call that asks the asker with where it asks, or why nobody is asked; as it is once that is over."""
        if prepared.asked is not None:
            return prepared
        if inquiry.ends_turn:
            alone = len(turn.open_calls) == 1 and turn.background is None
            return prepared if alone else replace(prepared, unasked=ENDS_ALONE)
        call = prepared.call.id
        before = sum(one.is_question and one.turn == turn.record.id for one in turn.approvals)
        now = len(turn.inquiries | {call})
        if now > MOST_OPEN or before + now > MOST_QUESTIONS:
            return replace(prepared, unasked=TOO_MANY_QUESTIONS)
        placed = await self._questions.place(turn, prepared.call, inquiry)
        if placed is None:
            return replace(prepared, unasked=NOWHERE)
        turn.inquiries.add(call)
        return replace(prepared, question=placed)

    async def _refused(self, turn: OpenTurn, context: Context, prepared: CallDecision, refusal: str) -> None:
        """Close a call that is not made: one that was begun before may have taken effect all the same."""
        if prepared.in_doubt:
            await self._interrupted(turn, context, prepared)
            return
        if prepared.decision.verdict is Verdict.REQUIRE_APPROVAL:
            prepared = self._unapproved(turn, prepared, refusal)
        await self._denied(turn, context, prepared, refusal)

    async def _overshot(self, turn: OpenTurn, prepared: CallDecision) -> tuple[bool, Alternative | None]:
        """Say whether a read whose result could not be told here ends the turn, and the alternative for the asker.

        In a shared chat it ends the turn even without an offer: a refusal there is told by a constant.
        """
        if prepared.open is not None or not self._alternatives.asks(turn.standing, prepared.decision):
            return False, None
        log = await turn.log()
        asked = question((*log.early, *log.events), turn.record.id)
        offer = None if asked is None else await self._alternatives.reading(turn.standing, prepared.call, asked)
        return offer is not None or turn.standing.destination.shared, offer

    def _refusal(self, turn: OpenTurn, prepared: CallDecision) -> str | None:
        """Return the reason for a refused call, by the gate or by people; None for a call that is not refused."""
        if prepared.decision.verdict is Verdict.BLOCK and not prepared.veiled:
            return denial(turn.standing, prepared.decision, turn.standing.taint, prepared.call.tool)
        if prepared.decision.verdict is Verdict.REQUIRE_APPROVAL:
            return answered(turn, prepared.call.id)
        return None

    def _unapproved(self, turn: OpenTurn, prepared: CallDecision, why: str) -> CallDecision:
        """Return a call that needed an approval and has none as refused.

        People were asked openly, so their answer is told openly, even for a call with references.
        """
        return replace(prepared, decision=self._gate.requests.unapproved(turn.standing, why, prepared.told), open=None)

    def _groups(self, calls: tuple[Call, ...], planned: frozenset[str]) -> Iterator[list[Call]]:
        """Yield the calls that run together; one that people were asked about (`planned`) runs alone, in its turn."""
        group = list[Call]()
        for call in calls:
            if call.id in planned or self._gate.calls.runs_alone(call):
                if group:
                    yield group
                yield [call]
                group = []
            else:
                group.append(call)
        if group:
            yield group

    async def _allowed(self, turn: OpenTurn, context: Context, prepared: CallDecision, *before: AuditRow) -> None:
        """Write the decision down, and with it the taint the call will cause."""
        call, decision, standing = prepared.call, prepared.decision, turn.standing
        written = [*event_log.taint_raised(standing, prepared.told.label_after, call.tool)]
        if call.id not in context.decided:
            told = event_log.tool_call(standing, call, referred(call.arguments), depended=prepared.depended)
            written.insert(0, told)
        # A replacement in a call with references is in the audit alone: it may be in a referenced item, and the number
        # of events may not tell of that.
        if decision.verdict is Verdict.REDACT and prepared.open is None:
            text = explained(decision, standing.taint, call.tool)
            why = event_log.policy_decision(standing, prepared.hook, decision, about=call.tool, text=text)
            written.append(event_log.decided(standing, why))
        row = decision_row(standing, prepared.hook, decision, **self._named(prepared))
        rows = (*before, row, *ended_rows(standing, prepared), *_releases(prepared))
        change = Change(events=tuple(written), audit=rows, use=prepared.use)
        await turn.write(replace(change, grant=prepared.grant, ended=prepared.ended))
        context.decided[call.id] = standing.taint

    async def _further(
        self, turn: OpenTurn, prepared: CallDecision, hook: Hook, *, decision: Decision, told: Mapping[str, JsonValue]
    ) -> None:
        """Write down a decision made while a call runs, before it takes effect.

        For a call whose result is held only the audit tells it: the data read so far may have led to it.
        """
        written = list[NewEvent]()
        if decision.verdict is not Verdict.ALLOW and not prepared.keeps:
            tool = str(told["tool"])
            text = explained(decision, turn.standing.taint, tool)
            decided = event_log.policy_decision(turn.standing, hook, decision, about=tool, text=text)
            written.append(event_log.decided(turn.standing, decided))
        await turn.write(Change(events=tuple(written), audit=(decision_row(turn.standing, hook, decision, **told),)))

    async def _denied(self, turn: OpenTurn, context: Context, prepared: CallDecision, text: str) -> None:
        """Write a refusal down as the call's result: nothing else changes (law `denial_changes_nothing`).

        A refusal that tells of the call's references is held, as a result would be. As the call was allowed openly, the
        session is raised as it declared. A refusal that tells of an identifier behind a handle carries its label: the
        session may know it, and is UNTRUSTED then.
        """
        call, standing, outcome = prepared.call, turn.standing, ToolOutcome.DENIED
        hook, decision = prepared.hook, prepared.decision
        why = explained(decision, standing.taint, call.tool)
        decided = event_log.policy_decision(standing, hook, decision, about=call.tool, text=why)
        raised, concealed = tuple[NewEvent, ...](), prepared.concealed and not prepared.by_handle
        if concealed:
            raised = event_log.taint_raised(standing, prepared.told.label_after, call.tool)
            standing = replace(standing, taint=standing.taint.join(prepared.told.label_after))
            held = self._gate.results.kept(standing, prepared, text, standing.taint)
            told = event_log.item_held(standing, held, decided)
            text, outcome = notice(held, standing.taint), ToolOutcome.HELD
        else:
            told = event_log.decided(standing, decided, prepared.beside)
        result = ToolResult(call.id, call.tool, text, outcome)
        label = standing.taint.join(prepared.beside) if prepared.by_handle else standing.taint
        written = [*raised, told, event_log.tool_result(standing, result, label)]
        if call.id not in context.decided:
            depended = prepared.depended if concealed else ()
            made = event_log.tool_call(turn.standing, call, referred(call.arguments), depended=depended)
            written.insert(0, made)
        row = decision_row(standing, hook, decision, **self._named(prepared))
        # Whether an approval was spent must not tell of it either.
        spent = prepared if concealed else replace(prepared, use=None, grant=None)
        change = Change(events=tuple(written), audit=(row, *ended_rows(standing, spent)), use=spent.use)
        await turn.write(replace(change, grant=spent.grant, ended=spent.ended))
        context.add_result(result)

    async def _interrupted(self, turn: OpenTurn, context: Context, prepared: CallDecision) -> None:
        """Close a call that was interrupted and that is not made again."""
        standing = turn.standing
        written, result = in_doubt(self._gate, standing, prepared)
        await turn.write(Change(events=written, audit=(self._invocation(standing),)))
        context.add_result(result)

    async def _responded(
        self, turn: OpenTurn, context: Context, prepared: CallDecision, response: ResultDecision
    ) -> None:
        """Write a result down with the decision on the model call that will read it, then deliver its texts."""
        call, standing = prepared.call, turn.standing
        after = replace(standing, taint=standing.taint.join(response.label))
        shown = self._fitted(turn, after, context, call=call, response=response)
        result = ToolResult(call.id, call.tool, shown.text, _outcome(response), response.endorsed)
        # The sources of a held result may be above the notice in its place.
        refs = response.refs if response.held is None else (HeldRef(response.held.ref),)
        written = [
            *_decided_on(standing, call, response),
            *(() if shown.held is None else (event_log.item_held(standing, shown.held),)),
            *event_log.taint_raised(standing, response.label, call.tool),
            event_log.tool_result(standing, result, response.label, refs=refs),
        ]
        if response.summary is not None:
            written.append(event_log.summarized(after, response.summary))
        deliveries = await turn.write(
            Change(
                events=tuple(written),
                audit=(*response.audit, self._invocation(after)),
                deliver=response.deliver,
                # A note that did not fit was not told in full, so it is told again.
                acknowledge=response.acknowledge if shown.text == response.text else (),
            )
        )
        context.add_result(result)
        await self._outbox.deliver(deliveries)

    def _fitted(
        self, turn: OpenTurn, after: DecisionContext, context: Context, *, call: Call, response: ResultDecision
    ) -> Fitted:
        """Return the part of a response that the model reads, by the room that the session has `after` it."""
        room = self._room.left(after, context, len(turn.open_calls))
        if room is None or response.held is not None:
            return Fitted(response.text)
        return fitted(after, call, response.text, label=response.label, room=room, reads_on=self._room.reads_on(after))

    def _named(self, prepared: CallDecision) -> dict[str, JsonValue]:
        return {"tool": self._gate.calls.known(prepared.call.tool), **prepared.audited}

    def _invocation(self, standing: DecisionContext) -> AuditRow:
        return decision_row(standing, Hook.AGENT_INVOCATION, self._gate.requests.invoke(standing))


def _before(turn: OpenTurn, context: Context, prepared: CallDecision) -> DecisionContext:
    """Return the session as it was before a call raised it, as the log of an interrupted attempt tells.

    So the call's task keeps the label that it was given with.
    """
    if prepared.raises == PUBLIC:
        return turn.standing
    return replace(turn.standing, taint=context.decided.get(prepared.call.id, turn.standing.taint))


def _releases(prepared: CallDecision) -> tuple[AuditRow, ...]:
    """Return the row that names a call as released by a person, none for any other call."""
    if not prepared.released:
        return ()
    return (AuditRow("release", prepared.released, {"step": "call", "tool": prepared.call.tool, **prepared.audited}),)


def _trace(told: OpenSpan, prepared: CallDecision, answer: str | None) -> None:
    """Tell a span of a decision, and of a call that refers to something above or whose result is held only its name.

    A name that the model made up is a text of its own.
    """
    told.tell(tool=UNKNOWN_TOOL if prepared.accepted is None else prepared.accepted[0].name)
    if prepared.open is not None or prepared.hold or prepared.concealed:
        told.conceal()
    else:
        told.tell(**traced(prepared.decision))
        if prepared.use is not None:
            told.tell(approval="granted")
        elif prepared.decision.verdict is Verdict.REQUIRE_APPROVAL:
            told.tell(approval="asked" if answer is None else "refused")


def _outcome(response: ResultDecision) -> ToolOutcome:
    if response.held is not None:
        return ToolOutcome.HELD
    return ToolOutcome.FAILED if response.failed else ToolOutcome.OK


def _decided_on(standing: DecisionContext, call: Call, response: ResultDecision) -> Iterator[NewEvent]:
    """Yield the event that tells of the decision on a result, or that holds the result: then it tells of both."""
    about, told = call.tool, None
    if response.decision.verdict is not Verdict.ALLOW:
        text = explained(response.decision, standing.taint, about)
        told = event_log.policy_decision(standing, response.hook, response.decision, about=about, text=text)
    if response.held is not None:
        yield event_log.item_held(standing, response.held, told, refs=(CallRef(call.id), *response.refs))
    elif told is not None:
        yield event_log.decided(standing, told)


def in_doubt(gate: Gate, standing: DecisionContext, prepared: CallDecision) -> tuple[tuple[NewEvent, ...], ToolResult]:
    """Return the events that close a call of unknown outcome, and its result, which the last of them tells.

    If a call's result is held, this result is held too: the data that it read may have decided whether it ended. For a
    call with references, even its start tells that nothing in their items stopped it (law `no_read_up`).
    """
    call, taint = prepared.call, standing.taint
    if not prepared.hold:
        # The label that a success would have had is in the taint since the call was allowed.
        result = ToolResult(call.id, call.tool, OUTCOME_UNKNOWN, ToolOutcome.INTERRUPTED)
        return (event_log.tool_result(standing, result, taint),), result
    label = gate.document.top if prepared.accepted is None else prepared.label
    held = gate.results.kept(standing, prepared, OUTCOME_UNKNOWN, label)
    result = ToolResult(call.id, call.tool, notice(held, taint), ToolOutcome.HELD)
    return (event_log.item_held(standing, held), event_log.tool_result(standing, result, taint)), result


def answered(turn: OpenTurn, call: str) -> str | None:
    """Return the refusal of a call that people did not approve, None if they are to be asked.

    An approval that no longer fits, because the label changed since, is as good as none: they are asked again.
    """
    for approval in turn.approvals:
        if approval.call == call and not approval.is_question:
            if approval.state is ApprovalState.DENIED:
                return DENIED
            if approval.state in {ApprovalState.EXPIRED, ApprovalState.CANCELLED, ApprovalState.SUPERSEDED}:
                return UNANSWERED
    return None
