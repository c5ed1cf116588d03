"""Commands that answer the questions a turn waits for.

A person who may answer a question, or whose request it is about, finds it at any address of theirs. An approval that
the caller, or a reader at this address, may not know of is answered like one that does not exist (law `no_read_up`).
"""

import json
from dataclasses import dataclass
from typing import Final

from bot.access.approvals import may_withdraw
from bot.commands.alternatives import AlternativeCommands
from bot.commands.command import CommandRequest, Reply, UsageError
from bot.commands.inbox.grants import decider
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import RequestError
from bot.core.invisible import in_code, spelled
from bot.delivery import approval_prompts, time_left
from bot.delivery.time_left import lasting
from bot.gate.gate import Gate
from bot.operations.approval_answers import ApprovalAnswers, PendingCall, named, terms
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.consents.grants import GrantTerms
from policy.labels import join_all

QUESTION: Final = "This is a question of the agent: use `/answer {id} TEXT`, or `/deny {id}` to decline."

LONGER: Final = " `/approve {id} conversation` and `/approve {id} until TIME` count for further calls."
GRANTED: Final = "Grant {id} counts {until}; `/grants revoke {id}` takes it back."

_LONGEST: Final = 2000
_HELD_BACK: Final = "is held back"


@dataclass(frozen=True, slots=True)
class ApprovalCommands:
    """List and answer the questions that turns wait for."""

    answers: ApprovalAnswers
    gate: Gate
    alternatives: AlternativeCommands

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the calls here that wait, the caller's own, and those elsewhere that they may answer."""
        return tuple(
            WaitingEntry(known.approval.asked_at, self._line(request, known.approval, _LONGEST), known.label)
            for known in await self._pending(request)
        )

    async def show(self, request: CommandRequest, argument: str) -> Reply:
        """Show the calls of one question whole."""
        pending = _named(await self._pending(request), argument)
        label = join_all(known.label for known in pending)
        return Reply("\n".join(self._line(request, known.approval, None) for known in pending), label)

    async def _pending(self, request: CommandRequest) -> tuple[PendingCall, ...]:
        found = await self.answers.pending(await decider(request))
        return tuple(known for known in found if not known.approval.is_question)

    async def approve(self, request: CommandRequest, argument: str) -> Reply:
        """Approve a waiting call: once, for this conversation, or until a time."""
        name, *words = argument.split() or [""]
        longer = terms(tuple(words), request.now)
        return await self._answer(request, name, ApprovalState.APPROVED, longer)

    async def deny(self, request: CommandRequest, argument: str) -> Reply:
        """Refuse a waiting call, take back one's own, or let an offer be."""
        declined = await self.alternatives.decline(request, argument)
        return declined or await self._answer(request, argument, ApprovalState.DENIED)

    async def _answer(
        self, request: CommandRequest, argument: str, answer: ApprovalState, longer: GrantTerms | None = None
    ) -> Reply:
        """Answer a question, or one call of it; of several calls those that the caller may answer, or take back."""
        if not argument:
            raise UsageError("")
        by = await decider(request)
        calls = _named(await self.answers.pending(by), argument)
        if answer is ApprovalState.APPROVED and calls[0].approval.is_question:
            label = join_all(known.label for known in calls)
            return Reply(QUESTION.format(id=calls[0].approval.id), label)
        try:
            done = await self.answers.answer(by, calls, answer, longer)
        except RequestError as error:
            return Reply.refusing(error, join_all(known.label for known in calls))
        if not done.settled:
            return Reply("\n".join(self._others(request, argument, done.left)), done.label)
        lines = [_settled(approval, answer) for approval in done.settled]
        if longer is not None:
            lines += [GRANTED.format(id=one.id, until=lasting(one)) for one in done.settled if one.grant is not None]
        if done.left:
            lines += [f"{len(done.left)} more wait.", *approval_prompts.answers(self.gate.document, done.left)]
        return Reply("\n".join(lines), done.label)

    def _others(self, request: CommandRequest, argument: str, asked: tuple[Approval, ...]) -> list[str]:
        """Return why a caller answers no part of a question: who does, and how to withdraw their own request."""
        name, document = argument.strip().lower(), self.gate.document
        rules = dict.fromkeys(rule for approval in asked for rule in approval.rules)
        lines = [
            f"Question {name} was asked by {', '.join(rules)}.",
            *(approval_prompts.answers(document, asked) or (approval_prompts.OTHERS_DO,)),
        ]
        if any(may_withdraw(approval, request.caller.principal) for approval in asked):
            lines.append(f"`/deny {name}` takes it back, `/stop` ends all of it.")
        return lines

    def _line(self, request: CommandRequest, approval: Approval, longest: int | None) -> str:
        shown, told = self._shown(request, approval, longest)
        since = time_left.since(approval, request.now)
        place = "here" if approval.sid == request.sid else f"in session {approval.sid}"
        return (
            f"{approval.id} `{approval.tool}` {shown}\n{told}"
            f"- asked {place} for {approval.principal} by {', '.join(approval.rules)}{since}\n"
            f"- label {approval.label}, {time_left.left(approval, request.now)}\n"
            f"- {self._how(request, approval)}"
        )

    def _shown(self, request: CommandRequest, approval: Approval, longest: int | None) -> tuple[str, str]:
        """Return a call's arguments, and the lines that tell what they do, as far as the caller may see them."""
        if self.answers.shown(request.caller.principal, approval) is None:
            return _HELD_BACK, ""
        document = self.gate.document
        if approval.question.release is not None:
            # One form everywhere, and whole: it fits into a message.
            return approval_prompts.asked_about(document, approval), ""
        told = approval_prompts.listed(document, approval, whole=longest is None)
        shown = spelled(json.dumps(dict(approval.question.arguments), ensure_ascii=False))
        if longest is None or len(shown) <= longest:
            return in_code(shown), told
        cut = f"{in_code(shown[:longest])}… ({len(shown)} characters, `/approvals {approval.id}` shows them all)"
        return cut, told

    def _how(self, request: CommandRequest, approval: Approval) -> str:
        """Tell how a call is answered, with the commands alone that the caller may give."""
        if self.answers.may_approve(request.caller.principal, approval):
            longer = "" if self.answers.offered(approval) is None else LONGER.format(id=approval.id)
            return f"Answer with `/approve {approval.id}` or `/deny {approval.id}`.{longer}"
        who = " ".join(approval_prompts.answers(self.gate.document, (approval,))) or approval_prompts.OTHERS_DO
        return (
            f"{who} `/deny {approval.id}` takes it back." if may_withdraw(approval, request.caller.principal) else who
        )


def _named(pending: tuple[PendingCall, ...], argument: str) -> tuple[PendingCall, ...]:
    """Return the calls that an argument names.

    Raises:
        UsageError: more than an id.
        NotFoundError: it names none.
    """
    if len(argument.split()) != 1:
        raise UsageError("")
    return named(pending, argument.strip().lower())


def _settled(approval: Approval, answer: ApprovalState) -> str:
    if approval.state is answer:
        what = "goes on" if answer is ApprovalState.APPROVED else "is refused"
        return f"Call {approval.id} {answer.value}, `{approval.tool}` {what}."
    return f"Call {approval.id} was {approval.state.value} already."
