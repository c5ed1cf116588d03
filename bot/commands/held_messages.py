"""Commands about held messages: texts of other sessions that a conversation takes in only after a person consents."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access import principals
from bot.access.authorize import at_least
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import ArchivedError, NotFoundError
from bot.core.ids import Ids
from bot.delivery import time_left
from bot.delivery.holding import buttons
from bot.gate.gate import Gate
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import PendingMessage
from bot.sessions.messages import OriginKind
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.accounts import DelegationStore
from bot.sessions.ports.sessions import SessionStore
from channels.messages import Button
from policy.labels import Label, join_all
from policy.request import Role

NOTHING: Final = "No message of another session is held."
SHARED: Final = "In a shared chat it needs the role admin to let something in that raises it."

_SHOWN: Final = 300
_MOST_BUTTONS: Final = 5
"""How many items of a list have buttons: more would not be read."""

_ANSWERS: Final = frozenset({"accept", "drop", "show"})


@dataclass(frozen=True, slots=True)
class HeldMessageCommands:
    """Show, accept or drop messages that are held for the caller's sessions."""

    sessions: SessionStore
    delegation: DelegationStore
    gate: Gate
    ids: Ids
    close: Callable[[str], Awaitable[None]]

    async def held(self, request: CommandRequest, argument: str) -> Reply:
        """Show the held items for the caller's sessions, one of them whole, or let it in, or drop it."""
        action, _, name = argument.partition(" ")
        if action in {"", "list"} and not name:
            return self._listed(await self._found(request))
        if action not in _ANSWERS or not name:
            raise UsageError("")
        for state, item in await self._found(request):
            if item.id == name.strip():
                return await self._answered(request, state, item, action)
        raise NotFoundError

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the held messages that the caller decides about."""
        return tuple(
            WaitingEntry(
                item.at,
                f"{self._line(state, item, _SHOWN)}\n- held {time_left.ago(item.at, request.now)}",
                _label(state, item),
            )
            for state, item in await self._found(request)
        )

    async def _answered(self, request: CommandRequest, state: SessionState, item: PendingMessage, action: str) -> Reply:
        if action == "show":
            line = self._line(state, item, len(item.body.text))
            return Reply(line, _label(state, item), buttons(item.id, accept=_takes(state, item)))
        return await self._decide(request, state, item, accept=action == "accept")

    async def _found(self, request: CommandRequest) -> list[tuple[SessionState, PendingMessage]]:
        """Return the items that may be told here: this address must be cleared for the item and the receiving session.

        A message to a shared chat's session is for the person who started its sender.
        """
        standing, caller = await request.standing(await request.state()), request.caller.principal
        found = list[tuple[SessionState, PendingMessage]]()
        for sid in sorted({request.sid, *await self.delegation.holding(caller)}):
            state = await self.sessions.state(sid)
            if state is None:
                continue
            found += [
                (state, item)
                for item in await self.delegation.held(sid)
                if _theirs(state, item, caller) and _label(state, item).flows_to(standing.reader)
            ]
        return found

    def _listed(self, found: list[tuple[SessionState, PendingMessage]]) -> Reply:
        shown = list[Button]()
        for state, item in found[:_MOST_BUTTONS]:
            shown += buttons(item.id, accept=_takes(state, item), named=len(found) > 1)
        lines = [self._line(state, item, _SHOWN) for state, item in found]
        return Reply("\n".join(lines) or NOTHING, join_all(_label(*one) for one in found), tuple(shown))

    def _line(self, state: SessionState, item: PendingMessage, longest: int) -> str:
        text = self.gate.masks.masked(item.body.text)
        cut = text if len(text) <= longest else f"{text[:longest]} … (`/held show {item.id}` shows it all)"
        origin = item.body.origin
        source = f" from session {origin.session}" if origin is not None and origin.session else ""
        return (
            f"{item.id}{source} for session {state.sid}, "
            f"which would then have read {state.taint.join(item.label)}: {cut}\n"
            f"- {_ways(state, item)}"
        )

    async def _closed(self, item: PendingMessage) -> None:
        """Edit the notice of an item that was decided about: it stands in its sender's outbox."""
        if item.body.origin is not None:
            await self.close(item.body.origin.session)

    async def _decide(
        self, request: CommandRequest, state: SessionState, item: PendingMessage, *, accept: bool
    ) -> Reply:
        if accept and not _takes(state, item):
            raise ArchivedError
        shared = principals.is_chat(state.principal)
        if accept and shared and not at_least(request.caller.role, Role.ADMIN):
            raise CommandError(SHARED)
        body = {"item": item.id, "label": str(item.label), "before": str(state.taint), "accepted": accept}
        row = AuditRow("held", request.caller.principal, body)
        await self.delegation.decide_held(state.sid, item.id, accept=accept, op=self.ids.op(), audit=(row,))
        await self._closed(item)
        label = _label(state, item)
        if not accept:
            return Reply(f"Message {item.id} is dropped.", label)
        return Reply(f"Message {item.id} is accepted, session {state.sid} reads it next.", label)


def _theirs(state: SessionState, item: PendingMessage, caller: str) -> bool:
    return (
        caller in {state.principal, item.sender} if principals.is_chat(state.principal) else state.principal == caller
    )


def _takes(state: SessionState, item: PendingMessage) -> bool:
    """Say whether a session still takes an item in; a background one that has ended takes reports alone."""
    origin = item.body.origin
    report = origin is not None and origin.kind is OriginKind.RESULT
    return report if state.ended_at else state.status is not Status.ARCHIVED


def _label(state: SessionState, item: PendingMessage) -> Label:
    return item.label.join(state.visibility)


def _ways(state: SessionState, item: PendingMessage) -> str:
    return ", ".join(
        f"{one.label.lower()} with `{one.command}`" for one in buttons(item.id, accept=_takes(state, item))
    )
