"""Who reads in shared chats, as far as Telegram tells a bot: administrators, and whoever was seen and did not leave.

Telegram lists no members, so this is never complete. It is kept for a short life, and asked anew when somebody joins or
leaves.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import anyio
from telegram.error import ChatMigrated, TelegramError

from channels.base import Audience, Reader, ReaderKind
from channels.message import Moved
from channels.telegram import wire
from channels.telegram.failures import MovedError

if TYPE_CHECKING:
    from telegram import Bot

    from channels.message import Address, Event

_UNKNOWN: Final = Audience(frozenset(), complete=False, shared=True)


class Crowd:
    """Asks `bot`, whose own account is no reader. `life` is how long, in seconds, an answer counts."""

    def __init__(self, bot: "Bot", own: str, life: float) -> None:
        self._bot = bot
        self._own = own
        self._life = life
        self._seen: dict[str, dict[str, Reader]] = defaultdict(dict)
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
        until, leading = self._known.get(chat, (0.0, frozenset[Reader]()))
        if until <= anyio.current_time():
            moves = self._moves[chat]
            try:
                members = await self._bot.get_chat_administrators(int(chat))
            except ChatMigrated as error:
                raise MovedError(str(error.new_chat_id)) from None
            except TelegramError:
                return _UNKNOWN
            leading = frozenset(_reader(member.user.id, is_bot=member.user.is_bot) for member in members)
            # Whoever came or went while this was asked may be missing in it.
            if moves == self._moves[chat]:
                self._known[chat] = (anyio.current_time() + self._life, leading)
        readers = {one.account: one for one in (*self._seen[chat].values(), *leading) if one.account != self._own}
        return Audience(frozenset(readers.values()), complete=False, shared=True)

    def note(self, met: wire.Met | None, told: "tuple[Event, ...]") -> None:
        """Learn from an update who was there, and what it tells."""
        if met is not None:
            seen = self._seen[met.chat]
            seen.update({reader.account: reader for reader in met.present})
            for gone in met.gone:
                seen.pop(gone, None)
            if met.moves:
                self._moves[met.chat] += 1
                self._known.pop(met.chat, None)
        for event in told:
            if isinstance(event, Moved):
                old, new = event.address.chat, event.to.chat
                self._seen[new] = self._seen.pop(old, {}) | self._seen[new]
                self._known.pop(new, None)


def _reader(number: int, *, is_bot: bool) -> Reader:
    return Reader(f"{wire.NAME}:{number}", ReaderKind.BOT if is_bot else ReaderKind.STRANGER)
