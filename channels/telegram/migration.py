"""Groups that became supergroups: the application keeps the old id, under any new id of Telegram's.

So sessions, classifications and an admin's word for a chat's members stay with it. The group that a supergroup was is
kept for all processes, once and for ever. A supergroup that wrote to the bot as a chat of its own before is never taken
for another. That a group moved is believed only if Telegram says so when it is asked about the group.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from telegram.error import BadRequest, ChatMigrated, Forbidden, TelegramError

from channels.messages import Address
from channels.port import ChannelVault
from channels.telegram import updates
from channels.telegram.errors import failure

if TYPE_CHECKING:
    from telegram import Bot

_SUPERGROUP: Final = "-100"


class GroupMigrations:
    """Knows the ids of groups. The stored ids are of one bot; `own` is its number."""

    def __init__(self, bot: "Bot", vault: ChannelVault, own: str) -> None:
        self._bot = bot
        self._vault = vault
        self._prefix = f"{updates.NAME}/{own}/moved/"
        self._first: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def now(self, address: Address) -> Address:
        """Return where an address of the application is at Telegram, as far as this process knows."""
        moved = self._now.get(address.chat)
        return address if moved is None else replace(address, chat=moved)

    async def first(self, address: Address, *, settled: bool) -> Address:
        """Return how the application calls an address of Telegram's; with `settled` that is so from now on.

        Raises VaultError: it cannot be known now.
        """
        chat = address.chat
        if not chat.startswith(_SUPERGROUP):
            return address
        if chat not in self._first:
            name = self._prefix + chat
            kept = await self._vault.get(name)
            if kept is None and settled:
                swapped = await self._vault.swap(name, None, chat.encode())
                kept = chat.encode() if swapped else await self._vault.get(name)
            if kept is None:
                return address
            self._knows(chat, kept.decode())
        return replace(address, chat=self._first[chat])

    async def learn(self, old: str, new: str) -> bool:
        """Take note that Telegram answered that a group is a supergroup now; return whether it counts.

        Raises VaultError: it cannot be kept.
        """
        await self._vault.swap(self._prefix + new, None, old.encode())
        return (await self.first(Address(updates.NAME, new), settled=True)).chat == old

    async def confirmed(self, old: str, new: str) -> bool:
        """Ask Telegram whether a group is another now, and take note of it; return whether it is.

        Raises:
            ChannelError: Telegram cannot be asked.
            VaultError: it cannot be kept.
        """
        try:
            await self._bot.send_chat_action(int(old), "typing")
        except ChatMigrated as error:
            return str(error.new_chat_id) == new and await self.learn(old, new)
        except (BadRequest, Forbidden):
            return False
        except TelegramError as error:
            raise failure(error) from None
        return False

    def _knows(self, chat: str, first: str) -> None:
        self._first[chat] = first
        if first != chat:
            self._now[first] = chat
