"""Commands that answer the questions a turn waits for.

An approval that the caller, or a reader at this address, may not know of is answered like one that does
not exist (law `no_read_up`).
"""

import json
from typing import Final

from bot.approvals import ANSWER, may_answer
from bot.commands.base import CommandContext, Reply, UsageError
from bot.errors import NotFoundError
from bot.sessions.values import Approval, ApprovalState, AuditRow
from policy.labels import PUBLIC, join_all

_MINUTE: Final = 60_000
_LONGEST: Final = 2000


async def approvals(context: CommandContext, argument: str) -> Reply:
    """List what waits for an answer here."""
    if argument:
        raise UsageError("")
    pending = await _pending(context)
    if not pending:
        return Reply("nothing waits for an answer")
    label = join_all(approval.label for approval in pending)
    return Reply("\n".join(_line(approval, context) for approval in pending), label)


async def approve(context: CommandContext, argument: str) -> Reply:
    """Let a waiting call go on."""
    return await _answer(context, argument, ApprovalState.APPROVED)


async def deny(context: CommandContext, argument: str) -> Reply:
    """Refuse a waiting call."""
    return await _answer(context, argument, ApprovalState.DENIED)


async def _answer(context: CommandContext, argument: str, answer: ApprovalState) -> Reply:
    words = argument.split()
    if len(words) != 1:
        raise UsageError("")
    approval = next((known for known in await _pending(context) if known.id == words[0].lower()), None)
    if approval is None:
        raise NotFoundError
    if not may_answer(context.gate.document, approval, context.caller.principal):
        return Reply(f"{approval.id} asks by {', '.join(approval.rules)}, somebody else has to answer", approval.label)
    row = AuditRow(
        "approval",
        context.caller.principal,
        {"approval": approval.id, "tool": approval.tool, "answer": answer.value, "binding": approval.binding},
    )
    settled = await context.store.resolve(
        context.sid, approval.id, answer, actor=context.caller.principal, audit=(row,)
    )
    return Reply(_settled(settled, answer), approval.label)


async def _pending(context: CommandContext) -> tuple[Approval, ...]:
    """Return the pending approvals of this session that caller and address are both cleared for."""
    if await context.state() is None:
        return ()
    here = (await context.gate.destination(context.address)).clearance or PUBLIC
    readable = here.meet(context.caller.clearance)
    return tuple(
        approval
        for approval in await context.store.approvals(context.sid)
        if approval.state is ApprovalState.PENDING and approval.label.flows_to(readable)
    )


def _settled(approval: Approval, answer: ApprovalState) -> str:
    if approval.state is answer:
        what = "goes on" if answer is ApprovalState.APPROVED else "is refused"
        return f"{approval.id} {answer.value}, `{approval.tool}` {what}"
    return f"{approval.id} was {approval.state.value} already"


def _line(approval: Approval, context: CommandContext) -> str:
    minutes = max(0, -(-(approval.expires_at - context.now) // _MINUTE))
    question = json.dumps(approval.question, ensure_ascii=False)
    shown = question if len(question) <= _LONGEST else f"{question[:_LONGEST]}… ({len(question)} characters)"
    if approval.tool == ANSWER and not may_answer(context.gate.document, approval, context.caller.principal):
        shown = "is held back"
    return (
        f"{approval.id} `{approval.tool}` {shown}\n"
        f"- asked by {', '.join(approval.rules)}, label {approval.label}, {minutes} min left\n"
        f"- answer with `/approve {approval.id}` or `/deny {approval.id}`"
    )
