"""`/model`: which model a conversation thinks with, what each may read, and switching to another one.

What may be read of a model's clearance is told as far as whoever asks may know it himself. A switch is decided like a
request to that model with the context as it is (law `read_is_decided_before_it_happens`).
"""

from dataclasses import replace
from typing import Final

from bot.access.authorize import at_least
from bot.commands.base import CommandContext, CommandError, Reply, UsageError
from bot.gate.results import decision_row
from bot.sessions.models import Claim, SessionState, Write
from policy.decision import Verdict
from policy.errors import nearest
from policy.labels import PUBLIC
from policy.request import Hook, Role

NOT_BEGUN: Final = "this conversation has not begun, say something first"
NOT_HERE: Final = "in a shared chat another model needs the role approver"

_LONGEST: Final = 80


async def model(context: CommandContext, argument: str) -> Reply:
    """Show the models of this conversation, or have it think with another one."""
    match argument.split():
        case []:
            return await _shown(context)
        case [name]:
            return await _switched(context, name)
        case _:
            raise UsageError("")


async def _shown(context: CommandContext) -> Reply:
    state = await context.state()
    standing = await context.standing(state)
    first, document = context.gate.requests.model(standing), context.gate.document
    fallback = [name for name in context.config.model.fallback if name != first]

    def line(name: str, how: str) -> str:
        return f"{how} {name}, which may read {document.provider(name).meet(standing.reader)} of what you may know"

    lines = [
        line(first, "this conversation thinks with"),
        *(line(name, "- if that does not answer") for name in fallback),
    ]
    others = [name for name in context.config.model.all if name != first]
    lines += [line(name, f"- with `/model {name}` with") for name in others]
    return Reply("\n".join(lines), PUBLIC if state is None else state.visibility)


async def _switched(context: CommandContext, name: str) -> Reply:
    known = context.config.model.all
    if name not in known:
        raise CommandError(f"there is no model `{name[:_LONGEST]}`{nearest(name, known)}, `/model` lists them")
    if await context.in_shared_chat() and not at_least(context.caller.role, Role.APPROVER):
        raise CommandError(NOT_HERE)
    state = await context.state()
    if state is None:
        raise CommandError(NOT_BEGUN)
    if context.gate.requests.model(await context.standing(state)) == name:
        return Reply(_told(name), state.visibility)
    async with context.claimed() as claim:
        return await _switched_claimed(context, claim, name)


async def _switched_claimed(context: CommandContext, claim: Claim, name: str) -> Reply:
    state: SessionState = claim.state
    standing = replace(await context.standing(state), model=name)
    decision = context.gate.requests.invoke(standing)
    allowed = decision.verdict is Verdict.ALLOW
    row = decision_row(standing, Hook.AGENT_INVOCATION, decision, model=name, cause="/model")
    chosen = "" if name == context.config.model.name else name
    await context.store.sessions.record(
        claim,
        Write(op=context.ids.op(), cursor=state.seq, audit=(row,), release=True, model=chosen if allowed else None),
    )
    if not allowed:
        return Reply(context.explained(decision, standing, f"/model {name}"), state.visibility)
    return Reply(_told(name), state.visibility)


def _told(name: str) -> str:
    return f"this conversation thinks with {name}, until it is reset"
