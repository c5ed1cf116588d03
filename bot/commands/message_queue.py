"""`/queue`: the messages that wait while this conversation is busy, their treatment, and withdrawing one's own."""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.access.authorize import at_least
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.conversation import NOTHING_YET
from bot.core.errors import NotFoundError
from bot.gate.gate import Gate
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem, QueueMode
from bot.sessions.ports.sessions import QueueStore, SessionStore
from bot.tools.history import author
from policy.request import Role

MEANINGS: Final = MappingProxyType(
    {
        QueueMode.COLLECT: "later messages of one person become one message",
        QueueMode.QUEUE: "each message is answered by itself, in order",
        QueueMode.STEER: "later messages of the person being answered enter the answer",
        QueueMode.INTERRUPT: "a later message of the person being answered stops the answer and takes its place",
    }
)
NOT_YOURS: Final = "No message {position} of yours waits here."
"""The answer for a message that is another person's or session's, or that does not exist."""

NOT_HERE: Final = "This conversation has read more than may be told here, so only `/stop` cancels waiting messages."
"""The answer where the waiting messages may not be known: a model that has read more chooses them (ADR 0021)."""

_MODES: Final = frozenset(QueueMode)
_DROP: Final = "drop"
_SHOWN: Final = 20
_BEGINNING: Final = 60
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class QueueCommands:
    """Show the messages that wait in a conversation, and change their treatment."""

    sessions: SessionStore
    queue: QueueStore
    gate: Gate

    async def manage(self, request: CommandRequest, argument: str) -> Reply:
        """Show the waiting messages and their treatment, change that, or cancel one of the caller's own."""
        match argument.split():
            case []:
                return await self._shown(request)
            case [word] if word in _MODES:
                return await self._changed(request, QueueMode(word))
            case [word, number] if word == _DROP and _NUMBER.fullmatch(number):
                return await self._dropped(request, int(number))
            case _:
                raise UsageError("")

    async def _shown(self, request: CommandRequest) -> Reply:
        state = await request.state()
        if state is None:
            return Reply(NOTHING_YET)
        reader = (await request.standing(state)).reader
        begun = 0 if state.turn is None else state.turn.position
        every = [item for item in await self.sessions.waiting(request.sid) if item.position != begun]
        waiting = [item for item in every if item.label.flows_to(reader)]
        many = {0: "Nothing waits.", 1: "1 message waits."}.get(len(waiting), f"{len(waiting)} messages wait.")
        lines = [_meaning(state.mode), many, *(self._line(item) for item in waiting[:_SHOWN])]
        if len(waiting) > _SHOWN:
            lines.append(f"And {len(waiting) - _SHOWN} behind these.")
        return Reply("\n".join(lines), state.visibility)

    async def _changed(self, request: CommandRequest, mode: QueueMode) -> Reply:
        state = await request.state()
        if state is None:
            raise CommandError(NOTHING_YET)
        if await request.in_shared_chat() and not at_least(request.caller.role, Role.APPROVER):
            raise CommandError("in a shared chat this needs the role approver")
        await self.queue.set_mode(request.sid, mode, (self._row(request, before=state.mode.value, after=mode.value),))
        return Reply(_meaning(mode))

    async def _dropped(self, request: CommandRequest, position: int) -> Reply:
        if await request.above(await request.state()):
            raise CommandError(NOT_HERE)
        waiting = {item.position: item for item in await self.sessions.waiting(request.sid)}
        item = waiting.get(position)
        if item is None or item.sender != request.caller.principal or item.body.origin is not None:
            return Reply(NOT_YOURS.format(position=position))
        try:
            await self.queue.withdraw(request.sid, item, (self._row(request, dropped=position),))
        except NotFoundError:
            return Reply(NOT_YOURS.format(position=position))
        return Reply(f"Message {position} is cancelled.")

    def _line(self, item: InboxItem) -> str:
        # Masked as a whole, so that shortening cannot cut a secret in two.
        text = " ".join(self.gate.masks.masked(item.body.text).split())
        beginning = text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…"
        return f"{item.position}. {author(item.body.origin, item.sender)}: {beginning}"

    def _row(self, request: CommandRequest, **what: str | int) -> AuditRow:
        return AuditRow("queue", request.caller.principal, {**what, "address": str(request.address)})


def _meaning(mode: QueueMode) -> str:
    return f"Mode {mode}: {MEANINGS[mode]}."
