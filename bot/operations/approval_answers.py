"""Answers to the calls that wait for people: which of them a person may know of, and how one that counts is given.

The commands of a chat and the HTTP API both end here. A call that the person, or a reader at their address, may not
know of is as one that does not exist (law `no_read_up`). `bot.access.approvals` decides who may answer.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.access.approvals import ANSWER, may_answer, may_withdraw
from bot.access.decision_context import DecisionContext
from bot.core.errors import NotFoundError, RequestError
from bot.core.json_values import JsonObject, mapped_object
from bot.delivery import approval_prompts
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.consents.grants import LONGEST_GRANT_MS, Grant, GrantTerms
from bot.sessions.log.serialization import question_json
from bot.sessions.ports.people import ApprovalStore
from bot.tools.arguments import strings
from channels.messages import Address
from policy.document import ends
from policy.labels import Label, join_all

if TYPE_CHECKING:
    from pydantic import JsonValue

CONVERSATION: Final = "conversation"
"""The word for a grant that counts until the conversation is reset."""

UNTIL: Final = "until"
"""The word before the end of a grant."""

_DURATION: Final = re.compile(r"([1-9]\d{0,3})([mhd])\Z", re.ASCII)
_UNITS_MS: Final = MappingProxyType({"m": 60_000, "h": 3_600_000, "d": 86_400_000})


class GrantTermsError(RequestError):
    """A grant cannot be given so; its sentence is shown."""

    code = "grant_terms"


class NotGrantableError(RequestError):
    """A call may be approved, but only once."""

    code = "not_grantable"

    def __init__(self) -> None:
        super().__init__(
            "this may be approved once only", next_step=f"leave out `{CONVERSATION}` or `{UNTIL}` to approve it once"
        )


def terms(words: tuple[str, ...], now: int) -> GrantTerms | None:
    """Return the terms that a person types behind an approval: none for once, `conversation`, or `until TIME`.

    `now` is milliseconds since the epoch. Raises GrantTermsError: they are something else, over, or too far away.
    """
    match words:
        case ():
            return None
        case ("conversation",):
            return GrantTerms(FOR_EVER)
        case ("until", *rest) if rest:
            return GrantTerms(_until(" ".join(rest), now))
        case _:
            said = " ".join(words)[:60]
            raise GrantTermsError(f"`{said}` is not `{CONVERSATION}` or `{UNTIL}` with a time, such as `{UNTIL} 2h`")


def _until(text: str, now: int) -> int:
    match = _DURATION.match(text)
    if match is not None:
        until = now + int(match[1]) * _UNITS_MS[match[2]]
    else:
        try:
            moment = ends.end(text)
        except ValueError:
            moment = None
        if moment is None:
            raise GrantTermsError(f"`{text[:60]}` is not a time, write one as `30m`, `2h`, `1d` or `2027-01-31T18:00Z`")
        until = int(moment.timestamp() * 1000)
    if not now < until <= now + LONGEST_GRANT_MS:
        raise GrantTermsError("a grant ends within 7 days from now, `until 7d` is the longest")
    return until


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
        told = question_json(replace(approval.question, scope=None))
        worst = self.offered(approval)
        return told if worst is None else {**told, "longer": worst}

    def offered(self, approval: Approval) -> str | None:
        """Return the worst case of a grant that may be given with an answer, None where it is answered once only."""
        return approval_prompts.worst(self._gate.document, approval)

    def spoken(self, standing: DecisionContext, approval: Approval, asks: JsonObject) -> JsonObject | None:
        """Return the question as it may be sent in a decision context, None where a rule keeps it back.

        Only a caller who lists waiting calls reads it, so that needs no approval.
        """
        content = "\n".join(strings(dict(asks)))
        decision = self._gate.output.reply(standing, standing.destination, content, approval.label).decision
        if decision.verdict not in MAY_GO_ON:
            return None
        return mapped_object(asks, lambda text: self._gate.masks.cleaned(text, decision))

    async def answer(
        self,
        by: Decider,
        calls: tuple[PendingCall, ...],
        answer: ApprovalState,
        longer: GrantTerms | None = None,
    ) -> AnsweredCalls:
        """Answer calls of one session with APPROVED or DENIED: those that the person may answer, or take back.

        With `longer`, calls whose question offers a grant are approved for further calls too, the others once.

        Raises:
            NotGrantableError: a grant is to be given, and none of the calls offers one.
            NotFoundError: the time of one is over.
            StoreError: the store cannot be used.
        """
        may = self.may_approve if answer is ApprovalState.APPROVED else self.may_refuse
        mine = [known.approval for known in calls if may(by.principal, known.approval)]
        left = tuple(known.approval for known in calls if known.approval not in mine)
        label = join_all(known.label for known in calls)
        if not mine:
            return AnsweredCalls((), left, label)
        mine = [self._longer(approval, longer) for approval in mine]
        granted = tuple(approval for approval in mine if approval.grant is not None)
        if longer is not None and not granted:
            raise NotGrantableError
        rows = tuple(_row(by, approval, answer) for approval in mine)
        ids = tuple(approval.id for approval in mine)
        settled = await self._asked.resolve(mine[0].sid, ids, answer, actor=by.principal, audit=rows, granted=granted)
        await self._close(mine[0].sid)
        return AnsweredCalls(settled, left, label)

    def _longer(self, approval: Approval, longer: GrantTerms | None) -> Approval:
        """Return an approval with the grant that is given with it; the shown call is the first of its calls."""
        scope = approval.question.scope
        if longer is None or scope is None or self.offered(approval) is None:
            return approval
        return replace(approval, grant=Grant(longer.until, scope.uses - 1))

    async def grants(self, by: Decider, now: int) -> tuple[PendingCall, ...]:
        """Return the grants that cover calls: of their session, given by them, and given for their calls elsewhere.

        Each is a fact labelled as its question; person and address have to be cleared for it, and for the session.
        Raises StoreError.
        """
        here = await self._asked.of(by.sid) if by.sid else ()
        known = [
            PendingCall(one, one.label) for one in here if one.grant is not None and one.grant.ended_at(now) is None
        ]
        known += [
            PendingCall(one, one.label.join(state.visibility))
            for state, one in await self._asked.granted(by.principal)
            if state.sid != by.sid
        ]
        return tuple(one for one in known if one.label.flows_to(by.reader))

    def may_revoke(self, principal: str, approval: Approval) -> bool:
        """Say whether a person may take a grant back: its asker, its giver, and people who may give it."""
        return principal in {approval.principal, approval.resolved_by} or self.may_approve(principal, approval)

    async def revoke(self, by: Decider, known: PendingCall) -> Approval:
        """Take back a grant that `grants` listed; no call uses it any more.

        Raises NotFoundError, StoreError: it is over with its generation, or the store cannot be used.
        """
        approval = known.approval
        body = {"what": "revoked", "grant": approval.id, "tool": approval.tool, "address": str(by.address)}
        row = AuditRow("grant", by.principal, body)
        return await self._asked.revoke(approval.sid, approval.id, actor=by.principal, audit=(row,))

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
    body: dict[str, JsonValue] = {
        "approval": approval.id,
        "tool": approval.tool,
        "answer": answer.value,
        "binding": approval.binding,
        "address": str(by.address),
    }
    grant, scope = approval.grant, approval.question.scope
    if grant is not None and scope is not None:
        body |= {"until": grant.until, "uses": scope.uses, "scope": scope.shape, "longer_for": list(scope.rules)}
    return AuditRow("approval", by.principal, body)
