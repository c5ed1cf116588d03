"""Parts of one message: an album, and a text that the sender's client cut, because Telegram takes 4096 characters.

Each part is an update of its own, and any process may be told of it. So nothing is collected here: each part is handed
on by itself, with a mark that it is one, and the application joins them. Only short notes are kept, in the vault. One
note has a sender's last long texts, so that the rest of a text is neither a command nor an answer. Another tells that
an album of a group mentions this bot, as only one of its parts does. Parts that come before that one are handed on with
it.

Telegram gives a message's time in whole seconds, so parts that were sent at once may differ by one.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from channels.messages import Inbound, MessagePart
from channels.port import ChannelVault, VaultError
from channels.rich_text import utf16_units
from channels.telegram import updates

NEAR: Final = 3_584
"""The length from which a text may have been cut, in UTF-16 code units: clients cut at the end of a line or word."""

_SECONDS: Final = 1
_MOST: Final = 20
_ALBUM: Final = 10
"""The most parts of an album at Telegram."""
_KEPT_TEXTS: Final = 3_600.0
_KEPT_ALBUMS: Final = 60.0
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class _Noted:
    """A text that may have been cut: its number, its time in seconds, and whether it is for this bot."""

    number: int
    date: int
    addressed: bool
    continues: bool


class MessageParts:
    """Recognises the parts of messages to one bot; `own` is the bot's number."""

    def __init__(self, vault: ChannelVault, own: str) -> None:
        self._vault = vault
        self._prefix = f"{updates.NAME}/{own}"

    async def of(self, update: updates.Json, inbound: Inbound, me: updates.TelegramIdentity) -> tuple[Inbound, ...]:
        """Return a message with its place among the parts of one, behind the earlier parts that it makes ours.

        Raises VaultError.
        """
        message = update.get("message")
        if message is None or inbound.bot or inbound.unread:
            return (inbound,)
        if "media_group_id" in message:
            inbound = replace(inbound, part=MessagePart(album=str(message["media_group_id"])))
            return (inbound,) if inbound.private else await self._of_album(update, inbound, me)
        return (await self._of_text(message, inbound) if inbound.authored and not inbound.files else inbound,)

    async def _of_text(self, message: updates.Json, inbound: Inbound) -> Inbound:
        long = utf16_units(str(message.get("text") or "")) >= NEAR
        name = f"{self._prefix}/text/{inbound.account}@{inbound.address}"
        try:
            noted = [_Noted(*one) for one in json.loads(await self._vault.get(name) or b"[]")]
        except VaultError:
            if long or inbound.addressed:
                raise
            # A conversation of people in a group waits for no vault.
            return inbound
        number, date = int(message["message_id"]), int(message["date"])
        own = next((one for one in noted if one.number == number), None)
        before = next((one for one in reversed(noted) if one.number < number), None)
        follows = before is not None and 0 <= date - before.date <= _SECONDS
        addressed = inbound.addressed or (follows and before is not None and before.addressed)
        if long and own is None:
            noted = sorted((*noted, _Noted(number, date, addressed, follows)), key=lambda one: one.number)[-_MOST:]
            told = [[one.number, one.date, one.addressed, one.continues] for one in noted]
            await self._vault.put(name, json.dumps(told).encode(), _KEPT_TEXTS)
        # A text that is told again counts as before, though notes before it may be gone.
        follows = follows if own is None else own.continues
        if not long and not follows:
            return inbound
        return replace(inbound, addressed=addressed, part=MessagePart(more=long, continues=follows))

    async def _of_album(
        self, update: updates.Json, inbound: Inbound, me: updates.TelegramIdentity
    ) -> tuple[Inbound, ...]:
        """Hand on the part of an album in a group that mentions the bot, and with it the parts that came before."""
        message = update["message"]
        name = f"{self._prefix}/album/{message['chat']['id']}/{message['from']['id']}/{message['media_group_id']}"
        for _ in range(_TRIES):
            stored = await self._vault.get(name)
            known: dict[str, Any] = json.loads(stored or b"{}")
            waiting: list[updates.Json] = known.get("waiting", [])
            called = bool(known.get("called"))
            if not inbound.addressed and (called or len(waiting) >= _ALBUM):
                return (replace(inbound, addressed=called),)
            if called:
                break
            kept = waiting if inbound.addressed else [*waiting, update]
            # Behind the mark no part waits any more: later ones are handed on at once.
            told = {"waiting": kept, "called": inbound.addressed}
            if await self._vault.swap(name, stored, json.dumps(told).encode(), _KEPT_ALBUMS):
                break
        else:
            raise VaultError("an album's parts arrive all at once")
        if not inbound.addressed:
            return (inbound,)
        earlier = (event for one in waiting for event in updates.events(one, me) if isinstance(event, Inbound))
        # They may have been handed on before, and count once: a process may have ended in the middle.
        return (*(replace(event, addressed=True, part=inbound.part) for event in earlier), inbound)
