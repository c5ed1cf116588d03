"""Messages of other bots: a few of them are answered, and then a person has to write.

config.yaml lists the bots that are read; the policy gives their rights, as for people. Two bots that answer each other
would never stop. So a bot gets a limited number of answers in a shared chat within an hour. After that its messages
there are ignored for an hour, or until a person writes there. The admins are told in private, once a day. Each adapter
ensures that this bot does not read its own messages.
"""

from collections.abc import Collection, Mapping
from typing import Final

from bot.ingress.admin_notices import HOUR_MS, AdminNotices, chat_name
from bot.sessions.ports.accounts import CountStore
from channels.messages import Address, Inbound

MOST: Final = 4
"""How many messages of a bot are answered in a chat in which no person writes."""

SILENT: Final = (
    "I do not answer {bot} in {chat} any more. It wrote to me {most} times in an hour, and nobody else did. "
    "I go on in an hour, or when a person writes there."
)

_DAY_MS: Final = 24 * HOUR_MS


class BotLoopGuard:
    """Guards against loops of bots. `bots` are the accounts of those that are read, by channel."""

    def __init__(self, store: CountStore, notices: AdminNotices, bots: Mapping[str, Collection[str]]) -> None:
        self._store = store
        self._notices = notices
        self._bots = bots

    async def heard(self, inbound: Inbound) -> None:
        """Note a message in a shared chat: if a person wrote it, bots may ask again there.

        Raises StoreError.
        """
        if not inbound.bot and not inbound.private:
            for bot in self._bots.get(inbound.address.channel, ()):
                await self._store.keep(_name(inbound.address, bot), 0)

    async def lets(self, inbound: Inbound) -> bool:
        """Say whether a message may be answered; a person's message always may. Raises StoreError."""
        if not inbound.bot:
            return True
        name = _name(inbound.address, inbound.account)
        times = await self._store.count(name, HOUR_MS)
        if times == MOST + 1:
            await self._store.keep(name, HOUR_MS)
            if await self._store.count(f"told/{name}", _DAY_MS) == 1:
                place = inbound.address.place
                text = SILENT.format(bot=inbound.account, chat=chat_name(place), most=MOST)
                await self._notices.tell(place, text)
        return times <= MOST


def _name(address: Address, bot: str) -> str:
    return f"bot/{address.place}/{bot}"
