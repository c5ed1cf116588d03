"""Commands about what is held: what other sessions sent that a conversation may not know of until a person says so."""

from typing import Final

from bot.commands.base import CommandContext, Reply, UsageError
from bot.errors import NotFoundError
from bot.sessions.kin import Held
from bot.sessions.records import AuditRow
from bot.sessions.values import SessionState
from policy.labels import Label, join_all

NOTHING: Final = "nothing is held"

_SHOWN: Final = 300
_ANSWERS: Final = frozenset({"accept", "refuse"})


async def held(context: CommandContext, argument: str) -> Reply:
    """Show what is held for the caller's sessions, or let one of it in, or drop it."""
    action, _, name = argument.partition(" ")
    if action in {"", "list"} and not name:
        found = await _found(context)
        return Reply("\n".join(_line(state, item) for state, item in found) or NOTHING, _label(found))
    if action not in _ANSWERS or not name:
        raise UsageError("")
    for state, item in await _found(context):
        if item.id == name.strip():
            return await _decide(context, state, item, accept=action == "accept")
    raise NotFoundError


async def _found(context: CommandContext) -> list[tuple[SessionState, Held]]:
    """Return what may be told of here: this address must be cleared for the item, and for the session it is for."""
    standing = await context.standing(await context.state())
    found = list[tuple[SessionState, Held]]()
    for sid in sorted({context.sid, *await context.store.holding(context.caller.principal)}):
        state = await context.store.state(sid)
        if state is None or state.principal != context.caller.principal:
            continue
        found += [
            (state, item)
            for item in await context.store.held(sid)
            if item.label.join(state.visibility).flows_to(standing.reader)
        ]
    return found


def _label(found: list[tuple[SessionState, Held]]) -> Label:
    return join_all(item.label.join(state.visibility) for state, item in found)


def _line(state: SessionState, item: Held) -> str:
    text = str(item.body["text"])
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
    return f"{item.id} for session {state.sid}, which would have read {state.taint.join(item.label)}: {cut}"


async def _decide(context: CommandContext, state: SessionState, item: Held, *, accept: bool) -> Reply:
    body = {"item": item.id, "label": str(item.label), "before": str(state.taint), "accepted": accept}
    row = AuditRow("held", context.caller.principal, body)
    await context.store.decide_held(state.sid, item.id, accept=accept, op=context.ids.op(), audit=(row,))
    label = item.label.join(state.visibility)
    if not accept:
        return Reply(f"{item.id} is dropped", label)
    return Reply(f"{item.id} is let in, session {state.sid} reads it next", label)
