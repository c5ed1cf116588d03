"""Answers to the calls that wait for people: which of them a person may know of, and how one that counts is given.

The commands of a chat and the HTTP API both end here. A call that the person, or a reader at their address, may not
know of is as one that does not exist (law `no_read_up`). `bot.access.approvals` decides who may answer.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.access.approvals import ANSWER, may_answer, may_withdraw
from bot.access.decision_context import DecisionContext
from bot.core.errors import NotFoundError
from bot.core.json_values import JsonObject, mapped_object
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.log.serialization import question_json
from bot.sessions.ports.people import ApprovalStore
from bot.tools.arguments import strings
from channels.messages import Address
from policy.labels import Label, join_all


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A question's call that waits, or waited, with the label that its listing has."""

    approval: Approval
    label: Label


@dataclass(frozen=True, slots=True)
class Decider:
    """The person who asks for open questions: a principal at an `address`, with the clearance `reader`.

    `sid` is the session of the chat that they ask in: all its open questions are shown there. It is empty for a
    program, which may list only its own questions, and those that it may answer.
    """

    principal: str
    reader: Label
    address: Address
    sid: str = ""


@dataclass(frozen=True, slots=True)
class AnsweredCalls:
    """The outcome of an answer: the calls as they stand, and those that another person has to answer.

    `settled` is empty if the person may answer none of them. `label` is the label of this outcome.
    """

    settled: tuple[Approval, ...]
    left: tuple[Approval, ...]
    label: Label


class ApprovalAnswers:
    """Finds the calls that wait, and answers them once. `close` edits the copies of a session's questions."""

    def __init__(self, asked: ApprovalStore, gate: Gate, close: Callable[[str], Awaitable[None]]) -> None:
        self._asked = asked
        self._gate = gate
        self._close = close

    async def pending(self, by: Decider) -> tuple[PendingCall, ...]:
        """Return the open questions of their session, and others that they may answer or asked (law `no_read_up`).

        Person and address both have to be cleared for it; of another session, for the session as well. Agents'
        questions are among them: one may decline to answer. Raises StoreError.
        """
        here = await self._asked.of(by.sid) if by.sid else ()
        known = [PendingCall(approval, approval.label) for approval in here if approval.state is ApprovalState.PENDING]
        known += [
            PendingCall(approval, approval.label.join(state.visibility))
            for state, approval in await self._asked.waiting()
            if state.sid != by.sid and self.may_refuse(by.principal, approval)
        ]
        # An agent's question to one person is nothing to others, here too.
        mine = (one for one in known if not one.approval.is_question or self.may_refuse(by.principal, one.approval))
        return tuple(one for one in mine if one.label.flows_to(by.reader))

    def may_approve(self, principal: str, approval: Approval) -> bool:
        """Say whether a person may approve a call, by the policy in force."""
        return may_answer(self._gate.document, approval, principal)

    def may_refuse(self, principal: str, approval: Approval) -> bool:
        """Say whether a person may refuse a call: one that they may answer, or asked for."""
        return self.may_approve(principal, approval) or may_withdraw(approval, principal)

    def shown(self, principal: str, approval: Approval) -> JsonObject | None:
        """Return the question, None for an answer that is held back from all who do not decide on it."""
        if approval.tool == ANSWER and not self.may_approve(principal, approval):
            return None
        return question_json(approval.question)

    def spoken(self, standing: DecisionContext, approval: Approval, asks: JsonObject) -> JsonObject | None:
        """Return the question as it may be sent in a decision context, None where a rule keeps it back.

        Only a caller who lists waiting calls reads it, so that needs no approval.
        """
        content = "\n".join(strings(dict(asks)))
        decision = self._gate.output.reply(standing, standing.destination, content, approval.label).decision
        if decision.verdict not in MAY_GO_ON:
            return None
        return mapped_object(asks, lambda text: self._gate.masks.cleaned(text, decision))

    async def answer(self, by: Decider, calls: tuple[PendingCall, ...], answer: ApprovalState) -> AnsweredCalls:
        """Answer calls of one session with APPROVED or DENIED: those that the person may answer, or take back.

        Raises:
            NotFoundError: the time of one is over.
            StoreError: the store cannot be used.
        """
        may = self.may_approve if answer is ApprovalState.APPROVED else self.may_refuse
        mine = [known.approval for known in calls if may(by.principal, known.approval)]
        left = tuple(known.approval for known in calls if known.approval not in mine)
        label = join_all(known.label for known in calls)
        if not mine:
            return AnsweredCalls((), left, label)
        rows = tuple(_row(by, approval, answer) for approval in mine)
        ids = tuple(approval.id for approval in mine)
        settled = await self._asked.resolve(mine[0].sid, ids, answer, actor=by.principal, audit=rows)
        await self._close(mine[0].sid)
        return AnsweredCalls(settled, left, label)

    async def answered(self, by: Decider, name: str) -> tuple[PendingCall, ...]:
        """Return the calls of a question that the person answered within an hour, by an id as `named` takes it.

        The person may know of them. Some may be left for another person, or have been answered by them.

        Raises:
            NotFoundError: there is none.
            StoreError: the store cannot be used.
        """
        found = await self._asked.answered(by.principal, name)
        known = [PendingCall(approval, approval.label.join(state.visibility)) for state, approval in found]
        told = tuple(one for one in known if one.label.flows_to(by.reader))
        if not told:
            raise NotFoundError
        return told


def named(pending: tuple[PendingCall, ...], name: str) -> tuple[PendingCall, ...]:
    """Return the calls of one session that an id names: one call's, or that of a question for all its calls.

    Raises NotFoundError: nothing of that name waits for this person here.
    """
    found = [known for known in pending if name in {known.approval.id, known.approval.asked_in}]
    if not found:
        raise NotFoundError
    return tuple(known for known in found if known.approval.sid == found[0].approval.sid)


def _row(by: Decider, approval: Approval, answer: ApprovalState) -> AuditRow:
    body = {
        "approval": approval.id,
        "tool": approval.tool,
        "answer": answer.value,
        "binding": approval.binding,
        "address": str(by.address),
    }
    return AuditRow("approval", by.principal, body)
