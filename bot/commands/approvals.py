"""Commands that answer the questions a turn waits for.

A person who may answer a question, or whose request it is about, finds it at any address of theirs. An approval that
the caller, or a reader at this address, may not know of is answered like one that does not exist (law `no_read_up`).
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access.approvals import ANSWER, may_answer, may_withdraw
from bot.commands.alternatives import AlternativeCommands
from bot.commands.command import CommandRequest, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.core.invisible import spelled
from bot.delivery import approval_prompts
from bot.gate.gate import Gate
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.log.serialization import question_json
from bot.sessions.ports.people import ApprovalStore
from policy.labels import Label, join_all

QUESTION: Final = "This is a question of the agent: use `/answer {id} TEXT`, or `/deny {id}` to decline."

_MINUTE: Final = 60_000
_LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class _Pending:
    """A question's call that waits, with the label of what telling of it tells."""

    approval: Approval
    label: Label


@dataclass(frozen=True, slots=True)
class ApprovalCommands:
    """List and answer the questions that turns wait for."""

    asked: ApprovalStore
    gate: Gate
    close: Callable[[str], Awaitable[None]]
    alternatives: AlternativeCommands

    async def approvals(self, request: CommandRequest, argument: str) -> Reply:
        """List what waits here, of the caller, and wherever they may answer; or show one question whole."""
        pending = tuple(known for known in await self._pending(request) if not known.approval.is_question)
        if argument:
            pending = _named(pending, argument)
        if not pending:
            return Reply("nothing waits for an answer")
        longest = None if argument else _LONGEST
        label = join_all(known.label for known in pending)
        return Reply("\n".join(self._line(request, known.approval, longest) for known in pending), label)

    async def approve(self, request: CommandRequest, argument: str) -> Reply:
        """Let a waiting call go on."""
        return await self._answer(request, argument, ApprovalState.APPROVED)

    async def deny(self, request: CommandRequest, argument: str) -> Reply:
        """Refuse a waiting call, take back one's own, or let an offer be."""
        declined = await self.alternatives.decline(request, argument)
        return declined or await self._answer(request, argument, ApprovalState.DENIED)

    async def _answer(self, request: CommandRequest, argument: str, answer: ApprovalState) -> Reply:
        """Answer a question, or one call of it; of several calls those that the caller may answer, or take back."""
        if not argument:
            raise UsageError("")
        named = _named(await self._pending(request), argument)
        label = join_all(known.label for known in named)
        if answer is ApprovalState.APPROVED and named[0].approval.is_question:
            return Reply(QUESTION.format(id=named[0].approval.id), label)
        may = self._mine if answer is ApprovalState.APPROVED else self._refusable
        mine = [known.approval for known in named if may(request, known.approval)]
        if not mine:
            return Reply("\n".join(self._others(request, argument, tuple(known.approval for known in named))), label)
        rows = tuple(
            AuditRow(
                "approval",
                request.caller.principal,
                {
                    "approval": approval.id,
                    "tool": approval.tool,
                    "answer": answer.value,
                    "binding": approval.binding,
                    "address": str(request.address),
                },
            )
            for approval in mine
        )
        ids = tuple(approval.id for approval in mine)
        settled = await self.asked.resolve(mine[0].sid, ids, answer, actor=request.caller.principal, audit=rows)
        await self.close(mine[0].sid)
        lines = [_settled(approval, answer) for approval in settled]
        if len(mine) < len(named):
            left = tuple(known.approval for known in named if known.approval not in mine)
            lines += [f"{len(left)} more wait", *approval_prompts.answers(self.gate.document, left)]
        return Reply("\n".join(lines), label)

    async def _pending(self, request: CommandRequest) -> tuple[_Pending, ...]:
        """Return what waits here, and what the caller may answer, or asked, elsewhere (law `no_read_up`).

        Caller and address both have to be cleared for it; of another session, for the session as well.
        """
        readable = (await request.standing(None)).reader
        here = await self.asked.of(request.sid)
        known = [_Pending(approval, approval.label) for approval in here if approval.state is ApprovalState.PENDING]
        known += [
            _Pending(approval, approval.label.join(state.visibility))
            for state, approval in await self.asked.waiting()
            if state.sid != request.sid and self._refusable(request, approval)
        ]
        # What an agent wants to know of somebody is nothing to others, here too.
        mine = (one for one in known if not one.approval.is_question or self._refusable(request, one.approval))
        return tuple(one for one in mine if one.label.flows_to(readable))

    def _mine(self, request: CommandRequest, approval: Approval) -> bool:
        return may_answer(self.gate.document, approval, request.caller.principal)

    def _refusable(self, request: CommandRequest, approval: Approval) -> bool:
        return self._mine(request, approval) or may_withdraw(approval, request.caller.principal)

    def _others(self, request: CommandRequest, argument: str, asked: tuple[Approval, ...]) -> list[str]:
        """Return why a caller answers nothing of a question: who does, and how to take back what they asked for."""
        name, document = argument.strip().lower(), self.gate.document
        rules = dict.fromkeys(rule for approval in asked for rule in approval.rules)
        lines = [
            f"{name} asks by {', '.join(rules)}",
            *(approval_prompts.answers(document, asked) or (approval_prompts.OTHERS_DO,)),
        ]
        if any(may_withdraw(approval, request.caller.principal) for approval in asked):
            lines.append(f"`/deny {name}` takes it back, `/stop` ends all of it")
        return lines

    def _line(self, request: CommandRequest, approval: Approval, longest: int | None) -> str:
        minutes = max(0, -(-(approval.expires_at - request.now) // _MINUTE))
        question = spelled(json.dumps(question_json(approval.question), ensure_ascii=False))
        shown = question
        if longest is not None and len(question) > longest:
            shown = f"{question[:longest]}… ({len(question)} characters, `/approvals {approval.id}` shows them all)"
        if approval.tool == ANSWER and not self._mine(request, approval):
            shown = "is held back"
        place = "here" if approval.sid == request.sid else f"in session {approval.sid}"
        return (
            f"{approval.id} `{approval.tool}` {shown}\n"
            f"- asked {place} for {approval.principal} by {', '.join(approval.rules)}\n"
            f"- label {approval.label}, {minutes} min left\n"
            f"- {self._how(request, approval)}"
        )

    def _how(self, request: CommandRequest, approval: Approval) -> str:
        """Tell how a call is answered, with the commands alone that the caller may give."""
        if self._mine(request, approval):
            return f"answer with `/approve {approval.id}` or `/deny {approval.id}`"
        who = " ".join(approval_prompts.answers(self.gate.document, (approval,))) or approval_prompts.OTHERS_DO
        return (
            f"{who} `/deny {approval.id}` takes it back." if may_withdraw(approval, request.caller.principal) else who
        )


def _named(pending: tuple[_Pending, ...], argument: str) -> tuple[_Pending, ...]:
    """Return the calls of one session that an id names: one call's, or that of a question for all its calls.

    Raises UsageError: more than an id. NotFoundError: nothing of that name waits for this caller here.
    """
    if len(argument.split()) != 1:
        raise UsageError("")
    name = argument.strip().lower()
    named = [known for known in pending if name in {known.approval.id, known.approval.asked_in}]
    if not named:
        raise NotFoundError
    return tuple(known for known in named if known.approval.sid == named[0].approval.sid)


def _settled(approval: Approval, answer: ApprovalState) -> str:
    if approval.state is answer:
        what = "goes on" if answer is ApprovalState.APPROVED else "is refused"
        return f"{approval.id} {answer.value}, `{approval.tool}` {what}"
    return f"{approval.id} was {approval.state.value} already"
