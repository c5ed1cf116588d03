"""The readers of shared chats, as far as Telegram tells: administrators, and accounts that were seen and did not leave.

Telegram lists no members, so this is never complete. Administrators are kept for a short life, and asked for anew when
an account joins or leaves. Accounts that were seen are kept in the vault, so that every process counts the same
readers, and are looked up every time. That takes one write for all who are seen for the first time or come or go, and
none for those who were there before. More than a thousand in one group are not told apart: then an unknown account
reads there, for ever.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import anyio
from telegram.error import ChatMigrated, TelegramError

from channels.port import Audience, ChannelVault, Reader, ReaderKind, VaultError
from channels.telegram import updates
from channels.telegram.errors import MovedError, failure

if TYPE_CHECKING:
    from telegram import Bot

    from channels.messages import Address


ANYBODY: Final = Reader(f"{updates.NAME}:*")
"""Stands for the unknown accounts."""

_MOST: Final = 1000
_TRIES: Final = 20


class SeenReaders:
    """Keeps them for one bot, `own` is its number. Every method raises VaultError."""

    def __init__(self, vault: ChannelVault, own: str) -> None:
        self._vault = vault
        self._prefix = f"{updates.NAME}/{own}/seen/"
        # As it was kept when this process looked last, so that nobody is written down twice.
        self._kept: dict[str, frozenset[Reader]] = {}

    async def readers(self, chat: str) -> frozenset[Reader]:
        """Return the accounts that were seen in a chat."""
        return self._read(chat, await self._vault.get(self._prefix + chat))

    async def note(self, met: updates.Presence) -> None:
        """Take note of the accounts that an update showed there, and of those that are gone."""
        # An account that comes may be one that another process saw going.
        if met.moves or not self._kept.get(met.chat, frozenset()).issuperset(met.present):
            await self._change(met.chat, met.present, met.gone)

    async def moved(self, old: str, new: str) -> None:
        """Take note that a chat has another id: who was seen in it is there as well."""
        await self._change(new, await self.readers(old), ())

    async def _change(self, chat: str, present: Iterable[Reader], gone: Iterable[str]) -> None:
        name, left = self._prefix + chat, set(gone)
        for _ in range(_TRIES):
            stored = await self._vault.get(name)
            before = self._read(chat, stored)
            known = {one.account: one for one in (*before, *present) if one.account not in left}
            after = frozenset(known.values())
            if len(after) > _MOST:
                after = before | {ANYBODY}
            if after == before or await self._vault.swap(name, stored, _written(after)):
                self._kept[chat] = after
                return
        raise VaultError("too many processes keep who was seen in a group")

    def _read(self, chat: str, stored: bytes | None) -> frozenset[Reader]:
        written: dict[str, str] = {} if stored is None else json.loads(stored)
        self._kept[chat] = frozenset(Reader(account, ReaderKind(kind)) for account, kind in written.items())
        return self._kept[chat]


def _written(readers: Iterable[Reader]) -> bytes:
    return json.dumps({one.account: one.kind.value for one in readers}, sort_keys=True).encode()


_LOGGER: Final = logging.getLogger(__name__)
_UNKNOWN: Final = Audience(frozenset(), complete=False, shared=True)


class TelegramReaders:
    """Asks `bot`, whose own account is not a reader. `life` is how long, in seconds, an answer counts."""

    def __init__(self, bot: "Bot", own: str, life: float, seen: SeenReaders) -> None:
        self._bot = bot
        self._own = own
        self._life = life
        self._seen = seen
        self._known: dict[str, tuple[float, frozenset[Reader]]] = {}
        self._moves: dict[str, int] = defaultdict(int)

    async def audience(self, address: "Address") -> Audience:
        """Return the readers of an address; an error gives an unknown audience.

        Raises MovedError: the chat has another id now.
        """
        chat, person = address.chat, address.recipient or address.chat
        if person.isdecimal():
            return Audience.of(f"{updates.NAME}:{person}")
        # A public chat's name is not followed: updates name it only by its number.
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
                facts = {"subject": f"channel {updates.NAME}", "cause": str(failure(error)), "destination": chat}
                _LOGGER.warning("it is not known who reads in a chat", extra=facts)
                return Audience(self._but_own(seen), complete=False, shared=True)
            leading = frozenset(_reader(member.user.id, is_bot=member.user.is_bot) for member in members)
            # An account that came or went while this was asked may be missing in it.
            if moves == self._moves[chat]:
                self._known[chat] = (anyio.current_time() + self._life, leading)
        return Audience(self._but_own({*seen, *leading}), complete=False, shared=True)

    async def note(self, met: updates.Presence) -> None:
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
    return Reader(f"{updates.NAME}:{number}", ReaderKind.BOT if is_bot else ReaderKind.STRANGER)
