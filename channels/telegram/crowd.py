"""Who reads in shared chats, as far as Telegram tells a bot: administrators, and whoever was seen and did not leave.

Telegram lists no members, so this is never complete. Administrators are kept for a short life, and asked for anew when
somebody joins or leaves; whoever was seen is looked up every time, as another process may have seen him.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import anyio
from telegram.error import ChatMigrated, TelegramError

from channels.base import Audience, Reader, ReaderKind, VaultError
from channels.telegram import wire
from channels.telegram.failures import MovedError, failure
from channels.telegram.seen import ANYBODY, Seen

if TYPE_CHECKING:
    from telegram import Bot

    from channels.message import Address

_LOGGER: Final = logging.getLogger(__name__)
_UNKNOWN: Final = Audience(frozenset(), complete=False, shared=True)


class Crowd:
    """Asks `bot`, whose own account is no reader. `life` is how long, in seconds, an answer counts."""

    def __init__(self, bot: "Bot", own: str, life: float, seen: Seen) -> None:
        self._bot = bot
        self._own = own
        self._life = life
        self._seen = seen
        self._known: dict[str, tuple[float, frozenset[Reader]]] = {}
        self._moves: dict[str, int] = defaultdict(int)

    async def audience(self, address: "Address") -> Audience:
        """Tell who reads at an address; an error is an audience that nobody knows.

        Raises MovedError: the chat has another id now.
        """
        chat, person = address.chat, address.recipient or address.chat
        if person.isdecimal():
            return Audience.of(f"{wire.NAME}:{person}")
        # A public chat's name is not followed: only its number is what updates name it by.
        if person != chat or not chat.removeprefix("-").isdecimal():
            return _UNKNOWN
        try:
            seen = await self._seen.readers(chat)
        except VaultError:
            # An admin may have vouched for the chat, so that nobody at all would be no reason to be silent.
            seen = frozenset({ANYBODY})
        until, leading = self._known.get(chat, (0.0, frozenset[Reader]()))
        if until <= anyio.current_time():
            moves = self._moves[chat]
            try:
                members = await self._bot.get_chat_administrators(int(chat))
            except ChatMigrated as error:
                raise MovedError(str(error.new_chat_id)) from None
            except TelegramError as error:
                facts = {"subject": f"channel {wire.NAME}", "cause": str(failure(error)), "destination": chat}
                _LOGGER.warning("it is not known who reads in a chat", extra=facts)
                return Audience(self._but_own(seen), complete=False, shared=True)
            leading = frozenset(_reader(member.user.id, is_bot=member.user.is_bot) for member in members)
            # Whoever came or went while this was asked may be missing in it.
            if moves == self._moves[chat]:
                self._known[chat] = (anyio.current_time() + self._life, leading)
        return Audience(self._but_own({*seen, *leading}), complete=False, shared=True)

    async def note(self, met: wire.Met) -> None:
        """Learn from an update who was there. Raises VaultError: it could not be kept."""
        if met.moves:
            self._moves[met.chat] += 1
            self._known.pop(met.chat, None)
        await self._seen.note(met)

    async def moved(self, old: str, new: str) -> None:
        """Learn that a chat has another id. Raises VaultError: it could not be kept."""
        self._known.pop(new, None)
        await self._seen.moved(old, new)

    def _but_own(self, readers: Iterable[Reader]) -> frozenset[Reader]:
        return frozenset(one for one in readers if one.account != self._own)


def _reader(number: int, *, is_bot: bool) -> Reader:
    return Reader(f"{wire.NAME}:{number}", ReaderKind.BOT if is_bot else ReaderKind.STRANGER)
