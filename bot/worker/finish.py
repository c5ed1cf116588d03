"""The end of a turn: an answer is sent, people are asked, or a notice says why there is none.

Step 7 of the way of one message. Every ending is one atomic commit against the fence: events, audit, usage, the input's
terminal status, the deliveries, and the lease given back.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from bot.access import approvals, labelling, principals
from bot.access.authorize import at_least
from bot.access.decision_context import Call, DecisionContext
from bot.agent.calls import in_doubt
from bot.agent.context import thought
from bot.agent.loop import Answer, Ending, GivenUp, Overshot, Waiting
from bot.core.ids import Ids
from bot.core.tracing import span
from bot.delegation import structured_result
from bot.delivery.alternatives import Alternatives, made
from bot.delivery.asker_questions import NOWHERE
from bot.delivery.interrupted_workflows import InterruptedWorkflows
from bot.delivery.undelivered import Undelivered
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, CallDecision, OutputDecision, decision_row, denial, explained, traced
from bot.history import event_log
from bot.sessions.alternatives import Alternative
from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import ResultField
from bot.sessions.deliveries import OURS, Delivery, NewDelivery, answer_key, question_key, told_key
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import ToolOutcome, ToolResult, TurnCompleted, YieldReason
from bot.sessions.log.events import NewEvent
from bot.sessions.models import Change, LastTurn, Status
from bot.tools.asking import ASKED
from bot.tools.references import referred
from bot.turn import OpenTurn
from bot.worker.approval_request import ApprovalRequests
from bot.worker.run_ending import RunEnding
from bot.worker.second_recipient import SecondRecipient
from channels.messages import OutboundKind
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label, join_all
from policy.request import Hook, Role

if TYPE_CHECKING:
    from pydantic import JsonValue

NO_ANSWER: Final = "The model gave no answer."
WENT_WRONG: Final = "Something went wrong here; the operator finds it under reference {reference}."
NOBODY_ASKED: Final = "This needs an approval, and it may not be asked for here."

NOT_MADE: Final = "the turn ended before this call was made"

REMOVED_HERE: Final = (
    "This conversation has read data of a compartment that the policy does not have any more. It answers nothing until"
    " `/reset confirm`; in a shared chat an admin types it."
)
DENIED_HERE: Final = "This cannot be said here, the person who asked was told more."
"""The only notice of a denial in a shared chat."""

_MESSAGE: Final = "this message"

_LOGGER: Final = logging.getLogger(__name__)


class TurnFinisher:
    """Ends turns. `approval_life` is the lifetime of a question to people in ms, None for ever.

    `undelivered` reports answers that did not reach their askers before, `interrupted` offers to continue workflows,
    and `runs` decides the effect of the ends of turns on runs.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        gate: Gate,
        ids: Ids,
        alternatives: Alternatives,
        *,
        undelivered: Undelivered,
        interrupted: InterruptedWorkflows,
        runs: RunEnding,
        approval_life: int | None,
    ) -> None:
        self._gate = gate
        self._ids = ids
        self._alternatives = alternatives
        self._undelivered = undelivered
        self._interrupted = interrupted
        self._runs = runs
        self._second = SecondRecipient(gate)
        self._asking = ApprovalRequests(gate, ids, approval_life)

    async def end(self, turn: OpenTurn, ending: Ending) -> tuple[Delivery, ...]:
        """Commit an ending and return its deliveries, claimed by this process.

        Raises LeaseLostError: another worker has the session, and nothing was written.
        """
        turn.standing = replace(turn.standing, destination=await self._gate.readers.destination(turn.standing.home))
        async with turn.lock:
            match ending:
                case Answer():
                    return await self._answer(turn, ending)
                case Waiting():
                    return await self._ask(turn, ending.calls)
                case Overshot():
                    return await self._overshot(turn, ending.calls)
                case GivenUp():
                    return await self._give_up(turn, ending)
                case _:
                    assert_never(ending)

    async def _answer(self, turn: OpenTurn, answer: Answer) -> tuple[Delivery, ...]:
        """Send the answer if its readers may hear it (hook PRE_OUTPUT)."""
        standing, fields = turn.standing, _fields(turn)
        text = answer.text if answer.text.strip() else NO_ANSWER
        text = structured_result.answer(fields, text) if fields else text
        call = Call(
            f"{turn.record.id}-{approvals.ANSWER}", approvals.ANSWER, {"text": text, "address": str(standing.home)}
        )
        bound = approvals.binding(standing, call)
        spoken, approval = await self._spoken(standing, text), None
        if spoken.decision.verdict is Verdict.REQUIRE_APPROVAL:
            approval = self._approval(turn, bound, call, spoken.decision)
        if approval is not None:
            spoken = self._gate.output.speak(standing, standing.destination, text, approved=approval.rules)
        decision = spoken.decision
        if decision.verdict is Verdict.REQUIRE_APPROVAL:
            refusal = self._asking.refusal(turn, decision, call)
            if refusal is None:
                if not answer.logged:
                    turn.note(event_log.thinking(standing, thought(answer.response)))
                return await self._ask(turn, (CallDecision(call, decision, bound),))
            decision = self._gate.requests.unapproved(standing, refusal, decision)
        # Redacted, it would not be the wanted fields any more.
        said = decision.verdict is Verdict.ALLOW or (decision.verdict is Verdict.REDACT and not fields)
        written = [*_asked(turn, answer, said=said), event_log.agent_message(standing, spoken.text, said=said)]
        if decision.verdict is not Verdict.ALLOW:
            why = explained(decision, standing.taint, approvals.ANSWER)
            told = event_log.policy_decision(standing, Hook.PRE_OUTPUT, decision, about=approvals.ANSWER, text=why)
            written.insert(0, event_log.decided(standing, told))
        ended = _answered(answer, tuple(written), said=said)
        rows = _rows(standing, decision, answer.asking)
        if said:
            deliver = NewDelivery(
                key=_told_once(turn, answer_key(turn.record.id)),
                address=str(standing.home),
                text=spoken.text,
                label=_endorsed(turn, standing.taint),
                turn=turn.record.id,
                approved=() if approval is None else approval.rules,
                hops=turn.record.hops + 1,
            )
        else:
            why = denial(turn.standing, decision, _readers(turn), approvals.ANSWER)
            offer = await self._alternatives.telling(standing, decision, spoken.text, standing.taint)
            notices = await self._denied(turn, why, _told(turn, decision), rows=rows, offer=offer)
            return await self._completed(turn, ended, notices, audit=tuple(rows), use=approvals.to_spend(approval))
        copy = await self._copied(turn, text, rows)
        ended = replace(ended, answer=text)
        return await self._completed(turn, ended, (deliver, copy), audit=tuple(rows), use=approvals.to_spend(approval))

    async def _spoken(self, standing: DecisionContext, text: str) -> OutputDecision:
        """Decide whether an answer may be said at home."""
        with span("output") as told:
            await self._gate.output.read_ahead((text,))
            spoken = self._gate.output.speak(standing, standing.destination, text)
            told.tell(**traced(spoken.decision))
        return spoken

    def _approval(self, turn: OpenTurn, bound: str, call: Call, decision: Decision) -> Approval | None:
        asked, now = approvals.asking(decision), turn.standing.now
        return approvals.live(self._gate.document, turn.approvals, bound=bound, call=call.id, asked=asked, now=now)

    async def _copied(self, turn: OpenTurn, text: str, rows: list[AuditRow]) -> NewDelivery | None:
        """Return a task's result for its second recipient, None if there is none.

        The number of its texts was fixed as one at the spawn, and that is the one of the first turn: the data read may
        choose how many turns follow.
        """
        lineage = turn.lineage
        return await self._second.copied(turn, lineage, text, rows) if lineage is not None and _first(turn) else None

    async def _ask(self, turn: OpenTurn, calls: tuple[CallDecision, ...]) -> tuple[Delivery, ...]:
        """Ask people; if the question may not be said here, nobody is asked and the turn ends."""
        asked = await self._asking.ask(turn, calls)
        return await self._give_up(turn, GivenUp(YieldReason.ERROR, NOBODY_ASKED)) if asked is None else asked

    async def _overshot(self, turn: OpenTurn, calls: tuple[CallDecision, ...]) -> tuple[Delivery, ...]:
        """End without reading data that could not be told here; the asker is offered, alone, to have it elsewhere."""
        standing, written, rows = turn.standing, list[NewEvent](), list[AuditRow]()
        for prepared in calls:
            call, text = prepared.call, NOT_MADE
            if prepared.in_doubt:
                written += in_doubt(self._gate, standing, prepared)[0]
                continue
            if not prepared.begun:
                written.append(event_log.tool_call(standing, call, referred(call.arguments)))
            if prepared.overshot:
                text = explained(prepared.decision, standing.taint, call.tool)
                hook, decision = prepared.hook, prepared.decision
                told = event_log.policy_decision(standing, hook, decision, about=call.tool, text=text)
                written.append(event_log.decided(standing, told))
                named: dict[str, JsonValue] = {"tool": call.tool, "call": call.id, "arguments": call.digest}
                rows.append(decision_row(standing, hook, decision, **named))
            result = ToolResult(call.id, call.tool, text, ToolOutcome.DENIED)
            written.append(event_log.tool_result(standing, result, standing.taint))
        first = min((one for one in calls if one.overshot), key=lambda one: one.offer is None)
        why = denial(turn.standing, first.decision, _readers(turn), first.call.tool)
        notices = await self._denied(turn, why, _told(turn, first.decision), rows=rows, offer=first.offer)
        ended = _Ended(YieldReason.COMPLETED, ItemStatus.CONSUMED, tuple(written))
        return await self._completed(turn, ended, notices, audit=tuple(rows))

    async def _give_up(self, turn: OpenTurn, ending: GivenUp) -> tuple[Delivery, ...]:
        """End without an answer: open calls get a result, the asker a notice, operators the error."""
        standing = turn.standing
        written = list(self._closed(turn))
        notice, status, label, reference = ending.notice, ItemStatus.CONSUMED, PUBLIC, ""
        if ending.reason is YieldReason.CANCELED:
            status = ItemStatus.CANCELLED
        if ending.decision is not None:
            why = explained(ending.decision, standing.taint, _MESSAGE)
            label = _told(turn, ending.decision)
            hook = Hook.AGENT_INVOCATION if ending.rejected is None else Hook.PRE_CONTEXT_INJECTION
            told = event_log.policy_decision(standing, hook, ending.decision, about=_MESSAGE, text=why)
            written.append(event_log.decided(standing, told))
            notice = denial(turn.standing, ending.decision, _readers(turn), _MESSAGE)
        if ending.error:
            reference = self._ids.reference()
            written.append(event_log.error(standing, reference, self._gate.masks.scrubbed(ending.error)))
            notice = ending.notice or WENT_WRONG.format(reference=reference)
            _LOGGER.warning("a turn ended without an answer", extra={"reference": reference, "told": notice})
            if ending.mend and self._may_mend(turn):
                notice, label = f"{notice}\n{ending.mend}", labelling.CONFIGURED
        then = Status.FAILED if ending.failed else Status.IDLE
        ended = _Ended(ending.reason, status, tuple(written), reference, then=then, cause=ending)
        if ending.rejected is not None:
            ended = replace(ended, status=ItemStatus.REJECTED, taken=turn.record.position)
        rows = [] if ending.rejected is None else [ending.rejected]
        deliver: tuple[NewDelivery | None, ...]
        if not notice:
            deliver = ()
        elif turn.above_home or ending.decision is not None or ending.aside:
            # The used-up budget is the asker's matter, and not one of a shared chat's other readers.
            deliver = await self._denied(turn, notice, label, rows=rows)
        else:
            deliver = (self._notice(turn, notice, label, rows),)
        if turn.lineage is not None and ending.reason is YieldReason.CANCELED:
            # The person who stopped it knows, and its parent must not be set going again.
            deliver = ()
        return await self._completed(turn, ended, deliver, audit=tuple(rows))

    def _closed(self, turn: OpenTurn) -> Iterator[NewEvent]:
        """Yield the events that give each open call a result: the outcome of a begun call is unknown."""
        for call in turn.open_calls.values():
            if call.id in turn.begun_calls:
                prepared = self._gate.calls.prepare(turn.standing, call, turn.approvals, begun=True)
                yield from in_doubt(self._gate, turn.standing, prepared)[0]
            else:
                result = ToolResult(call.id, call.tool, NOT_MADE, ToolOutcome.INTERRUPTED)
                yield event_log.tool_result(turn.standing, result, turn.standing.taint)

    @staticmethod
    def _may_mend(turn: OpenTurn) -> bool:
        """Say whether the asker administers this installation, and may be told in private how to mend it."""
        standing = turn.standing
        admin = at_least(standing.role, Role.ADMIN) and turn.background is None
        alone = not standing.destination.shared and not turn.above_home
        return admin and alone and labelling.CONFIGURED.flows_to(_readers(turn))

    async def _completed(
        self,
        turn: OpenTurn,
        ended: "_Ended",
        deliver: tuple[NewDelivery | None, ...],
        *,
        audit: tuple[AuditRow, ...],
        use: str | None = None,
    ) -> tuple[Delivery, ...]:
        """Commit the end of a turn."""
        standing, record = turn.standing, turn.record
        usage = record.usage.plus(turn.usage)
        if record.attempt > 1:
            # The tokens of a crashed attempt are unknown.
            usage = replace(usage, complete=False)
        before, said = await self._undelivered.before(turn), [new for new in deliver if new is not None]
        offers = await self._interrupted.before(turn)
        run = await self._runs.of(turn, ended.reason, ended.cause, ended.answer)
        if run is not None:
            # Its home has no readers: answers there are in the log alone.
            said = [*(new for new in said if new.address != str(standing.home)), *run.deliver]
            turn.afterwards = partial(self._runs.written, turn, run)
        completed = TurnCompleted(
            ended.reason,
            took=turn.took,
            idle=max(turn.took - turn.active, 0),
            attempt=record.attempt,
            error=ended.reference,
            usage=usage,
        )
        last = LastTurn(record.id, ended.reason, error=ended.reference)
        return await turn.end(
            Change(
                events=(*ended.events, event_log.turn_completed(standing, completed)),
                audit=(*before.audit, *offers.audit, *audit, *(() if run is None else run.audit)),
                take=ended.taken,
                settle=tuple((position, ended.status) for position in (record.position, *record.joined)),
                end=last,
                usage=usage,
                status=ended.then,
                deliver=(*before.deliver, *offers.deliver, *said),
                use=use,
                run=None if run is None else run.step,
            )
        )

    async def _denied(
        self, turn: OpenTurn, why: str, label: Label, *, rows: list[AuditRow], offer: Alternative | None = None
    ) -> tuple[NewDelivery | None, ...]:
        """Return the notices of a denial: in a shared chat one constant, and the reason to the asker alone.

        The reason comes with the alternative that they are offered, which counts from now on.
        """
        text = why if offer is None else f"{why}\n{self._alternatives.wording(offer)}"
        if turn.above_home:
            constants, told = self._constants(turn, rows), await self._apart(turn, text, label, rows)
        elif turn.standing.destination.shared:
            constants = (self._notice(turn, DENIED_HERE, PUBLIC, rows),)
            told = await self._aside(turn, text, label, rows)
        else:
            constants, told = (), self._notice(turn, text, label, rows)
        if offer is not None and told is not None:
            await self._alternatives.make(replace(offer, told=label))
            rows.append(made(offer))
            told = replace(told, key=question_key(turn.record.id, offer.code), kind=OutboundKind.OFFER)
        return (*constants, told)

    def _constants(self, turn: OpenTurn, rows: list[AuditRow]) -> tuple[NewDelivery | None, ...]:
        """Return the notices at home once the session has read more than may be told there: the same for each message.

        The model knows that by then, and chooses whether, how and after how many turns it ends (ADR 0021). So there is
        no notice about messages of other sessions.
        """
        if not turn.asked:
            return ()
        notice = self._notice(turn, constant(self._gate, turn.standing), PUBLIC, rows)
        return tuple(notice and replace(notice, key=f"{notice.key}-{position}") for position in turn.asked)

    async def _apart(self, turn: OpenTurn, text: str, label: Label, rows: list[AuditRow]) -> NewDelivery | None:
        """Return the notice to the asker alone about a denial in their shared chat, None elsewhere.

        An asker not cleared for the taint gets an explanation for the least label above them, regardless of the taint.
        """
        standing = turn.standing
        if not (standing.destination.shared and turn.asked):
            return None
        person = self._gate.document.principals.get(standing.asker)
        clearance = PUBLIC if person is None else person.clearance
        if standing.taint.flows_to(clearance):
            return await self._aside(turn, text, label, rows)
        least = labelling.least_above(self._gate.document, clearance, standing.taint)
        decision = self._gate.requests.invoke(replace(standing, taint=least))
        return await self._aside(turn, explained(decision, _readers(turn), _MESSAGE), PUBLIC, rows)

    async def _aside(self, turn: OpenTurn, text: str, label: Label, rows: list[AuditRow]) -> NewDelivery | None:
        """Return a notice for the asker in a shared chat, None if they have no account there or may not hear it."""
        there = principals.aside(self._gate.document, turn.standing.asker, turn.standing.home)
        if there is None:
            return None
        spoken = self._gate.output.reply(turn.standing, await self._gate.readers.destination(there), text, label)
        rows.append(decision_row(turn.standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(there)))
        if spoken.decision.verdict not in MAY_GO_ON:
            return None
        key = f"{turn.record.id}-aside"
        return NewDelivery(key, str(there), spoken.text, label, OutboundKind.NOTICE, turn.record.id, approved=OURS)

    def _notice(self, turn: OpenTurn, text: str, label: Label, rows: list[AuditRow]) -> NewDelivery | None:
        """Return a notice with a constant or masked text, None if it may not be said; its decision joins `rows`.

        The fact and the way of a background session's failure reveal its reads, so the notice carries the label of all
        of them. A session with fields says only that it failed.
        """
        home = str(turn.standing.home)
        if turn.claim.state.lineage is not None:
            text = structured_result.FAILED if _fields(turn) else text
            label = _endorsed(turn, turn.standing.taint.join(turn.claim.state.visibility))
        spoken = self._gate.output.reply(turn.standing, turn.standing.destination, text, label)
        rows.append(decision_row(turn.standing, Hook.PRE_OUTPUT, spoken.decision, destination=home))
        if spoken.decision.verdict not in MAY_GO_ON:
            return None
        return NewDelivery(
            key=_told_once(turn, f"{turn.record.id}-notice"),
            address=home,
            text=spoken.text,
            label=label,
            kind=OutboundKind.NOTICE,
            turn=turn.record.id,
            approved=OURS,
            hops=turn.record.hops + 1,
        )


@dataclass(frozen=True, slots=True)
class _Ended:
    """The data that the end of a turn writes.

    Args:
        reason: Why the turn ended.
        status: The terminal status of its inputs.
        events: The events to append.
        reference: The reference of an error, empty for none.
        taken: The position of an input that the turn never admitted.
        then: The status of the session afterwards if no input waits.
        answer: The answer that was sent.
        cause: Why there is no answer.
    """

    reason: YieldReason
    status: ItemStatus
    events: tuple[NewEvent, ...]
    reference: str = ""
    taken: int | None = None
    then: Status = Status.IDLE
    answer: str = ""
    cause: GivenUp | None = None


def _answered(answer: Answer, events: tuple[NewEvent, ...], *, said: bool) -> _Ended:
    """Return the end of a turn with an answer: one that is a question leaves the session waiting for the reply."""
    if said and answer.asking is not None:
        return _Ended(YieldReason.NEEDS_INPUT, ItemStatus.CONSUMED, events, then=Status.AWAITING_INPUT)
    return _Ended(YieldReason.COMPLETED, ItemStatus.CONSUMED, events)


def _rows(standing: DecisionContext, decision: Decision, asking: CallDecision | None) -> list[AuditRow]:
    """Return the row of the decision on an answer, after that on the call which ends its turn with a question."""
    row = decision_row(standing, Hook.PRE_OUTPUT, decision, destination=str(standing.home))
    if asking is None:
        return [row]
    return [decision_row(standing, asking.hook, asking.decision, tool=asking.call.tool, call=asking.call.id), row]


def _asked(turn: OpenTurn, answer: Answer, *, said: bool) -> tuple[NewEvent, ...]:
    """Return the events that close the call which ends its turn with a question."""
    if answer.asking is None:
        return ()
    call = answer.asking.call
    told, outcome = (ASKED, ToolOutcome.OK) if said else (NOWHERE, ToolOutcome.DENIED)
    result = ToolResult(call.id, call.tool, told, outcome)
    return (
        event_log.tool_call(turn.standing, call, ()),
        event_log.tool_result(turn.standing, result, turn.standing.taint),
    )


def constant(gate: Gate, standing: DecisionContext) -> str:
    """Return the notice for each message at the home of a session that has read more than may be told there.

    It explains the least label that may not be told there, regardless of the taint (ADR 0021). Only a removed
    compartment is told, to readers who may know the rest of the taint.
    """
    readers = standing.destination.clearance or PUBLIC
    if labelling.only_removed_lacks(gate.document, standing.taint, readers):
        return REMOVED_HERE
    if standing.destination.shared:
        return DENIED_HERE
    least = labelling.least_above(gate.document, readers, standing.taint)
    spoken = gate.output.speak(replace(standing, taint=least), standing.destination, "")
    return explained(spoken.decision, readers, approvals.ANSWER)


def _fields(turn: OpenTurn) -> tuple[ResultField, ...]:
    """Return the fields that a background session answers with, none if it may answer with a text."""
    lineage = turn.claim.state.lineage
    return () if lineage is None else lineage.returns


def _first(turn: OpenTurn) -> bool:
    """Say whether no turn of this session has ended, by its record in the store, which only this turn may write."""
    return turn.claim.state.last_turn is None


def _told_once(turn: OpenTurn, key: str) -> str:
    """Return the key of a turn's last delivery: that of its run for a charged answer, its own for any other."""
    lineage = turn.claim.state.lineage
    return told_key(lineage.run) if lineage is not None and lineage.returns and _first(turn) else key


def _endorsed(turn: OpenTurn, label: Label) -> Label:
    """Return the label of a delivery: an endorsed answer, or the constant in its place, has an endorsed label."""
    lineage = turn.claim.state.lineage
    endorsed = lineage is not None and lineage.endorsed and _first(turn)
    return labelling.bounded(label, turn.claim.state.creation) if endorsed else label


def _readers(turn: OpenTurn) -> Label:
    return turn.standing.destination.clearance or PUBLIC


def _told(turn: OpenTurn, decision: Decision) -> Label:
    """Return the label of an explanation for these readers: that of the labels it shows them."""
    labels = (decision.label_before, decision.label_after)
    return join_all(label for label in labels if label.flows_to(_readers(turn)))
