"""Commands that answer the questions a turn waits for.

Whoever may answer a question finds it at any address of his. An approval that the caller, or a reader at this
address, may not know of is answered like one that does not exist (law `no_read_up`).
"""

import json
from dataclasses import dataclass
from typing import Final

from bot.approvals import ANSWER, may_answer
from bot.commands import offers
from bot.commands.base import CommandContext, Reply, UsageError
from bot.errors import NotFoundError
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.records import AuditRow
from bot.unseen import spelled
from policy.labels import Label, join_all

_MINUTE: Final = 60_000
_LONGEST: Final = 2000


async def approvals(context: CommandContext, argument: str) -> Reply:
    """List what waits for an answer, here and wherever the caller may answer; or show one question whole."""
    pending = await _pending(context)
    if argument:
        pending = _named(pending, argument)
    if not pending:
        return Reply("nothing waits for an answer")
    longest = None if argument else _LONGEST
    label = join_all(known.label for known in pending)
    return Reply("\n".join(_line(known.approval, context, longest) for known in pending), label)


async def approve(context: CommandContext, argument: str) -> Reply:
    """Let a waiting call go on."""
    return await _answer(context, argument, ApprovalState.APPROVED)


async def deny(context: CommandContext, argument: str) -> Reply:
    """Refuse a waiting call, or let an offer be."""
    declined = await offers.decline(context, argument)
    return declined or await _answer(context, argument, ApprovalState.DENIED)


async def _answer(context: CommandContext, argument: str, answer: ApprovalState) -> Reply:
    """Answer a question, or one call of it; of several calls those that the caller may answer."""
    if not argument:
        raise UsageError("")
    named = _named(await _pending(context), argument)
    label = join_all(known.label for known in named)
    mine = [known.approval for known in named if _mine(context, known.approval)]
    if not mine:
        rules = dict.fromkeys(rule for known in named for rule in known.approval.rules)
        return Reply(f"{argument.strip().lower()} asks by {', '.join(rules)}, somebody else has to answer", label)
    rows = tuple(
        AuditRow(
            "approval",
            context.caller.principal,
            {
                "approval": approval.id,
                "tool": approval.tool,
                "answer": answer.value,
                "binding": approval.binding,
                "address": str(context.address),
            },
        )
        for approval in mine
    )
    ids = tuple(approval.id for approval in mine)
    settled = await context.store.resolve(mine[0].sid, ids, answer, actor=context.caller.principal, audit=rows)
    await context.close(mine[0].sid)
    lines = [_settled(approval, answer) for approval in settled]
    if len(mine) < len(named):
        lines.append(f"{len(named) - len(mine)} more wait for somebody else")
    return Reply("\n".join(lines), label)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A question's call that waits, with the label of what telling of it tells."""

    approval: Approval
    label: Label


async def _pending(context: CommandContext) -> tuple[_Pending, ...]:
    """Return what waits in this conversation, and what the caller may answer in any other (law `no_read_up`).

    Caller and address both have to be cleared for it; of another session, for the session as well.
    """
    readable = (await context.standing(None)).reader
    here = await context.store.approvals(context.sid)
    known = [_Pending(approval, approval.label) for approval in here if approval.state is ApprovalState.PENDING]
    known += [
        _Pending(approval, approval.label.join(state.visibility))
        for state, approval in await context.store.questions()
        if state.sid != context.sid and _mine(context, approval)
    ]
    return tuple(one for one in known if one.label.flows_to(readable))


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


def _mine(context: CommandContext, approval: Approval) -> bool:
    return may_answer(context.gate.document, approval, context.caller.principal)


def _settled(approval: Approval, answer: ApprovalState) -> str:
    if approval.state is answer:
        what = "goes on" if answer is ApprovalState.APPROVED else "is refused"
        return f"{approval.id} {answer.value}, `{approval.tool}` {what}"
    return f"{approval.id} was {approval.state.value} already"


def _line(approval: Approval, context: CommandContext, longest: int | None) -> str:
    minutes = max(0, -(-(approval.expires_at - context.now) // _MINUTE))
    question = spelled(json.dumps(approval.question, ensure_ascii=False))
    shown = question
    if longest is not None and len(question) > longest:
        shown = f"{question[:longest]}… ({len(question)} characters, `/approvals {approval.id}` shows them all)"
    if approval.tool == ANSWER and not _mine(context, approval):
        shown = "is held back"
    place = "here" if approval.sid == context.sid else f"in session {approval.sid}"
    return (
        f"{approval.id} `{approval.tool}` {shown}\n"
        f"- asked {place} for {approval.principal} by {', '.join(approval.rules)}\n"
        f"- label {approval.label}, {minutes} min left\n"
        f"- answer with `/approve {approval.id}` or `/deny {approval.id}`"
    )
