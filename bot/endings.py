"""How a turn ends: an answer is said, people are asked, or a notice says why there is none.

Step 7 of the way of one message. Every ending is one atomic commit against the fence: events, audit,
usage, the input's terminal status, what is to be said, and the lease given back.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, assert_never

from bot import approvals, events
from bot.agent.calls import INTERRUPTED, answered
from bot.agent.context import response_body
from bot.agent.loop import Answer, Ending, GivenUp, Waiting
from bot.crossings import Prepared
from bot.gate import NOBODY, Gate
from bot.ids import Ids
from bot.sessions.values import (
    Approval,
    AuditRow,
    Delivery,
    ItemStatus,
    LastTurn,
    NewDelivery,
    NewEvent,
    Status,
    YieldReason,
)
from bot.standing import Call
from bot.turn import OpenTurn
from channels.message import OutboundKind
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label, join_all
from policy.request import Hook

if TYPE_CHECKING:
    from pydantic import JsonValue

NO_ANSWER: Final = "the model gave no answer"
WENT_WRONG: Final = "something went wrong here; the operator finds it under reference {reference}"
NOBODY_ASKED: Final = "this needs an approval, and it may not be asked for here"

_MESSAGE: Final = "this message"


class Endings:
    """Ends turns. `approval_life` is how long a question to people stands, in milliseconds."""

    def __init__(self, gate: Gate, ids: Ids, approval_life: int) -> None:
        self._gate = gate
        self._ids = ids
        self._approval_life = approval_life

    async def end(self, turn: OpenTurn, ending: Ending) -> tuple[Delivery, ...]:
        """Commit an ending and return what is to be delivered, claimed by this process.

        Raises LeaseLostError: the session is somebody else's now, and nothing was written.
        """
        turn.standing = replace(turn.standing, destination=await self._gate.destination(turn.standing.home))
        async with turn.lock:
            match ending:
                case Answer():
                    return await self._answer(turn, ending)
                case Waiting():
                    return await self._ask(turn, ending.calls)
                case GivenUp():
                    return await self._give_up(turn, ending)
                case _:
                    assert_never(ending)

    async def _answer(self, turn: OpenTurn, answer: Answer) -> tuple[Delivery, ...]:
        """Say the answer if its readers may hear it (hook PRE_OUTPUT)."""
        standing = turn.standing
        text = answer.text if answer.text.strip() else NO_ANSWER
        call = Call(
            f"{turn.record.id}-{approvals.ANSWER}", approvals.ANSWER, {"text": text, "address": str(standing.home)}
        )
        bound = approvals.binding(standing, call)
        approval = approvals.live(turn.approvals, bound, call.id, standing.now)
        spoken = self._gate.speak(standing, standing.destination, text, approved=approval is not None)
        decision = spoken.decision
        if decision.verdict is Verdict.REQUIRE_APPROVAL:
            refusal = self._refusal(turn, decision, call)
            if refusal is None:
                if not answer.logged:
                    turn.note(events.thinking(standing, response_body(answer.response)))
                return await self._ask(turn, (Prepared(call, decision, bound),))
            decision = self._gate.refused(standing, refusal, decision)
        said = decision.verdict in {Verdict.ALLOW, Verdict.REDACT}
        written = [events.agent_message(standing, spoken.text, said=said)]
        if decision.verdict is not Verdict.ALLOW:
            why = self._gate.explained(decision, standing.taint, approvals.ANSWER)
            written.insert(0, events.decided(standing, Hook.PRE_OUTPUT, decision, approvals.ANSWER, why))
        ended = _Ended(YieldReason.COMPLETED, ItemStatus.CONSUMED, tuple(written))
        rows = [self._gate.row(standing, Hook.PRE_OUTPUT, decision, destination=str(standing.home))]
        if said:
            deliver = NewDelivery(
                key=f"{turn.record.id}-answer",
                address=str(standing.home),
                text=spoken.text,
                label=standing.taint,
                turn=turn.record.id,
                approved=approval is not None,
            )
        else:
            why = self._gate.explained(decision, _readers(turn), approvals.ANSWER)
            deliver, row = self._notice(turn, why, _told(turn, decision))
            rows.append(row)
        return await self._completed(turn, ended, deliver, tuple(rows), approvals.to_spend(approval))

    def _refusal(self, turn: OpenTurn, decision: Decision, call: Call) -> str | None:
        """Return why an answer is not asked about: people said no, or nobody can be asked; None if they can."""
        if approvals.someone_may_answer(self._gate.document, decision, turn.standing):
            return answered(turn, call.id)
        return NOBODY

    async def _ask(self, turn: OpenTurn, calls: tuple[Prepared, ...]) -> tuple[Delivery, ...]:
        """Ask people, in one question for the whole step, and wait without holding a worker.

        Whoever answers must be cleared for the complete arguments where they are asked; if the question may
        not be said here, nobody is asked and the turn ends.
        """
        standing = turn.standing
        asked = tuple(self._approval(turn, prepared) for prepared in calls)
        question = "\n".join(_question(approval) for approval in asked)
        spoken = self._gate.speak(standing, standing.destination, question, approved=True)
        if spoken.decision.verdict is not Verdict.ALLOW:
            return await self._give_up(turn, GivenUp(YieldReason.ERROR, NOBODY_ASKED))
        row = self._gate.row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(standing.home))
        rows = tuple(
            self._gate.row(standing, _hook(prepared), prepared.decision, tool=prepared.call.tool, call=prepared.call.id)
            for prepared in calls
        )
        key = f"{turn.record.id}-{asked[0].id}"
        deliver = NewDelivery(
            key=key,
            address=str(standing.home),
            text=question,
            label=standing.taint,
            kind=OutboundKind.QUESTION,
            turn=turn.record.id,
            approved=True,
        )
        return await turn.end(
            events=(
                *(self._asked(turn, prepared) for prepared in calls),
                *(events.approval_requested(standing, approval) for approval in asked),
            ),
            audit=(*rows, row),
            ask=asked,
            turn=replace(turn.record, suspended=True, usage=turn.record.usage.plus(turn.usage)),
            status=Status.AWAITING_INPUT,
            deliver=(deliver,),
        )

    async def _give_up(self, turn: OpenTurn, ending: GivenUp) -> tuple[Delivery, ...]:
        """End without an answer: open calls get a result, the asker a notice, operators the error."""
        standing = turn.standing
        written = [
            events.tool_result(standing, call, tool, INTERRUPTED, "interrupted", standing.taint)
            for call, tool in turn.open_calls.items()
        ]
        notice, status, label, reference = ending.notice, ItemStatus.CONSUMED, PUBLIC, ""
        if ending.reason is YieldReason.CANCELED:
            status = ItemStatus.CANCELLED
        if ending.decision is not None:
            why = self._gate.explained(ending.decision, standing.taint, _MESSAGE)
            label = _told(turn, ending.decision)
            hook = Hook.AGENT_INVOCATION if ending.rejected is None else Hook.PRE_CONTEXT_INJECTION
            written.append(events.decided(standing, hook, ending.decision, _MESSAGE, why))
            notice = self._gate.explained(ending.decision, _readers(turn), _MESSAGE)
        if ending.error:
            reference = self._ids.reference()
            written.append(events.error(standing, reference, ending.error))
            notice = ending.notice or WENT_WRONG.format(reference=reference)
        ended = _Ended(ending.reason, status, tuple(written), reference)
        if ending.rejected is not None:
            ended = replace(ended, status=ItemStatus.REJECTED, taken=turn.record.position)
        rows = () if ending.rejected is None else (ending.rejected,)
        deliver, row = self._notice(turn, notice, label)
        return await self._completed(turn, ended, deliver, (*rows, row))

    async def _completed(
        self,
        turn: OpenTurn,
        ended: "_Ended",
        deliver: NewDelivery | None,
        audit: tuple[AuditRow, ...],
        use: str | None = None,
    ) -> tuple[Delivery, ...]:
        """Commit the end of a turn."""
        standing, record = turn.standing, turn.record
        usage = record.usage.plus(turn.usage)
        if record.attempt > 1:
            # What a crashed attempt used is not known.
            usage = replace(usage, complete=False)
        last = LastTurn(
            record.id,
            ended.reason,
            record.started_at,
            standing.now,
            record.attempt,
            error=ended.reference,
            usage=usage,
        )
        return await turn.end(
            events=(*ended.events, events.turn_completed(standing, ended.reason.value)),
            audit=audit,
            take=ended.taken,
            settle=((record.position, ended.status),),
            end=last,
            status=Status.IDLE,
            deliver=() if deliver is None else (deliver,),
            use=use,
        )

    def _notice(self, turn: OpenTurn, text: str, label: Label) -> tuple[NewDelivery | None, AuditRow]:
        """Return a constant or masked text as what is said, None if even that may not be, and the decision's row."""
        home = str(turn.standing.home)
        spoken = self._gate.reply(turn.standing, turn.standing.destination, text, label)
        row = self._gate.row(turn.standing, Hook.PRE_OUTPUT, spoken.decision, destination=home)
        if spoken.decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
            return None, row
        notice = NewDelivery(
            key=f"{turn.record.id}-notice",
            address=home,
            text=spoken.text,
            label=label,
            kind=OutboundKind.NOTICE,
            turn=turn.record.id,
            approved=True,  # rules that ask for approvals ask about an agent's words, and these are ours
        )
        return notice, row

    def _approval(self, turn: OpenTurn, prepared: Prepared) -> Approval:
        standing, call = turn.standing, prepared.call
        rules = approvals.asking(prepared.decision)
        question: dict[str, JsonValue] = {
            "tool": call.tool,
            "arguments": dict(call.arguments or {}),
            "rules": list(rules),
        }
        return Approval(
            id=self._ids.approval(),
            sid=standing.sid,
            generation=standing.generation,
            turn=turn.record.id,
            call=call.id,
            tool=call.tool,
            binding=prepared.binding,
            label=standing.taint,
            principal=standing.principal,
            question=question,
            rules=rules,
            expires_at=standing.now + self._approval_life,
        )

    def _asked(self, turn: OpenTurn, prepared: Prepared) -> NewEvent:
        why = self._gate.explained(prepared.decision, turn.standing.taint, prepared.call.tool)
        return events.decided(turn.standing, _hook(prepared), prepared.decision, prepared.call.tool, why)


@dataclass(frozen=True, slots=True)
class _Ended:
    """What the end of a turn writes.

    `reference` names an error, `taken` is the position of an input the turn never let in.
    """

    reason: YieldReason
    status: ItemStatus
    events: tuple[NewEvent, ...]
    reference: str = ""
    taken: int | None = None


def _hook(prepared: Prepared) -> Hook:
    return Hook.PRE_OUTPUT if prepared.call.tool == approvals.ANSWER else Hook.PRE_TOOL_CALL


def _readers(turn: OpenTurn) -> Label:
    return turn.standing.destination.clearance or PUBLIC


def _told(turn: OpenTurn, decision: Decision) -> Label:
    """Return the label of an explanation for these readers: that of the labels it shows them."""
    labels = (decision.label_before, decision.label_after)
    return join_all(label for label in labels if label.flows_to(_readers(turn)))


def _question(approval: Approval) -> str:
    """Return what people are asked where the session lives; an answer that is held back is not shown there."""
    if approval.tool == approvals.ANSWER:
        return (
            f"The answer is held back by {', '.join(f'`{rule}`' for rule in approval.rules)} until somebody entitled "
            f"says so: `/approvals` shows it to them, `/approve {approval.id}` or `/deny {approval.id}`"
        )
    arguments = json.dumps(approval.question["arguments"], ensure_ascii=False, indent=2)
    return (
        f"May `{approval.tool}` run with exactly these arguments?\n{arguments}\n"
        f"Asked by {', '.join(f'`{rule}`' for rule in approval.rules)} at {approval.label}. "
        f"`/approve {approval.id}` or `/deny {approval.id}`"
    )
