"""`/queue`: what waits while this conversation is busy, what becomes of it, and taking back what one sent."""

import re
from types import MappingProxyType
from typing import Final

from bot.access.authorize import at_least
from bot.commands.base import CommandContext, CommandError, Reply, UsageError
from bot.commands.session import NOTHING_YET
from bot.core.errors import NotFoundError
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem, QueueMode
from bot.tools.history import author
from policy.request import Role

MEANINGS: Final = MappingProxyType(
    {
        QueueMode.COLLECT: "what one person sends meanwhile becomes one message",
        QueueMode.QUEUE: "each message is answered by itself, in order",
        QueueMode.STEER: "what the person being answered sends meanwhile enters the answer",
        QueueMode.INTERRUPT: "what the person being answered sends meanwhile stops the answer and takes its place",
    }
)
NOT_YOURS: Final = "no message {position} of yours waits here"
"""The answer for one that is another's, that another session sent, or that there is none of."""

NOT_HERE: Final = "this conversation has read more than may be told here, so `/stop` alone cancels what waits"
"""The answer where nobody may know what waits: a model that has read more chooses that (ADR 0021)."""

_MODES: Final = frozenset(QueueMode)
_DROP: Final = "drop"
_SHOWN: Final = 20
_BEGINNING: Final = 60
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


async def queue(context: CommandContext, argument: str) -> Reply:
    """Show what waits and what becomes of it, change that, or cancel a waiting message of the caller's own."""
    match argument.split():
        case []:
            return await _shown(context)
        case [word] if word in _MODES:
            return await _changed(context, QueueMode(word))
        case [word, number] if word == _DROP and _NUMBER.fullmatch(number):
            return await _dropped(context, int(number))
        case _:
            raise UsageError("")


async def _shown(context: CommandContext) -> Reply:
    state = await context.state()
    if state is None:
        return Reply(NOTHING_YET)
    reader = (await context.standing(state)).reader
    begun = 0 if state.turn is None else state.turn.position
    every = [item for item in await context.store.sessions.waiting(context.sid) if item.position != begun]
    waiting = [item for item in every if item.label.flows_to(reader)]
    many = {0: "nothing waits", 1: "1 message waits"}.get(len(waiting), f"{len(waiting)} messages wait")
    lines = [_meaning(state.mode), many, *(_line(context, item) for item in waiting[:_SHOWN])]
    if len(waiting) > _SHOWN:
        lines.append(f"and {len(waiting) - _SHOWN} behind these")
    return Reply("\n".join(lines), state.visibility)


async def _changed(context: CommandContext, mode: QueueMode) -> Reply:
    state = await context.state()
    if state is None:
        raise CommandError(NOTHING_YET)
    if await context.in_shared_chat() and not at_least(context.caller.role, Role.APPROVER):
        raise CommandError("in a shared chat this needs the role approver")
    await context.store.queue.set_mode(context.sid, mode, (_row(context, before=state.mode.value, after=mode.value),))
    return Reply(_meaning(mode))


async def _dropped(context: CommandContext, position: int) -> Reply:
    if await context.above(await context.state()):
        raise CommandError(NOT_HERE)
    waiting = {item.position: item for item in await context.store.sessions.waiting(context.sid)}
    item = waiting.get(position)
    if item is None or item.sender != context.caller.principal or "origin" in item.body:
        return Reply(NOT_YOURS.format(position=position))
    try:
        await context.store.queue.withdraw(context.sid, item, (_row(context, dropped=position),))
    except NotFoundError:
        return Reply(NOT_YOURS.format(position=position))
    return Reply(f"message {position} is cancelled")


def _meaning(mode: QueueMode) -> str:
    return f"mode {mode}: {MEANINGS[mode]}"


def _line(context: CommandContext, item: InboxItem) -> str:
    # Masked as a whole, so that the end of what is shown cannot cut a secret in two.
    text = " ".join(context.gate.masks.masked(str(item.body["text"])).split())
    beginning = text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…"
    return f"{item.position}. {author(item.body, item.sender)}: {beginning}"


def _row(context: CommandContext, **what: str | int) -> AuditRow:
    return AuditRow("queue", context.caller.principal, {**what, "address": str(context.address)})
