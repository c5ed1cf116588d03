"""Notices about a chat for people who may classify it: in private, and each once."""

from collections.abc import Callable
from typing import Final

from bot.access.authorize import Caller, Ingress, at_least
from bot.access.decision_context import DecisionContext
from bot.core.clock import Clock
from bot.delivery.alternatives import private_chats
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from channels.messages import Address, Button
from policy.document.model import Document
from policy.document.overrides import ChatPlace
from policy.request import Role

HOUR_MS: Final = 60 * 60 * 1000


def _no_buttons(_caller: Caller) -> tuple[Button, ...]:
    """Return no buttons."""
    return ()


class AdminNotices:
    """Sends admins notices about chats."""

    def __init__(self, gate: Gate, outbox: Outbox, clock: Clock) -> None:
        self._gate = gate
        self._outbox = outbox
        self._clock = clock

    async def tell(
        self, place: Address, text: str, buttons: Callable[[Caller], tuple[Button, ...]] = _no_buttons
    ) -> bool:
        """Tell the admins something about a chat, each in private; return whether any was told. Raises StoreError."""
        told = False
        for caller, home in admins(self._gate.document, place, self._outbox.channels):
            destination = await self._gate.readers.destination(home)
            if destination.shared:
                continue
            standing = DecisionContext.of_caller(caller, home, destination, self._clock.wall_ms())
            told |= await self._outbox.tell(standing, text, buttons(caller))
        return told


def admins(document: Document, place: Address, served: tuple[str, ...]) -> list[tuple[Caller, Address]]:
    """Return every person who may classify a chat, each with one private chat: of its channel, or of another served."""
    found = list[tuple[Caller, Address]]()
    for name, person in document.principals.items():
        if not at_least(person.role, Role.ADMIN):
            continue
        homes = [home for home in private_chats(document, name, place) if home.channel in served]
        caller = Caller(name, person.role, person.clearance, Ingress.COMMAND)
        found += [(caller, home) for home in homes[:1]]
    return found


def chat_name(place: Address) -> str:
    """Return the name of a chat in commands."""
    return str(ChatPlace(place.channel, place.workspace, place.chat))
