"""Chats that need an admin: the admins are told of one in private, once, with the steps they can take.

Those are chats without a classification, and chats whose vouching ended since a person joined.

Any person may add the bot to a chat or speak to it there, so the number of notices in an hour is bounded for each
channel. A chat that was left out is reported when a person speaks to the bot there again. The title of a chat is not
shown: others chose it. No decision is made here; the buttons are commands like any others.
"""

from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.gate.gate import Gate
from bot.ingress.admin_notices import HOUR_MS, AdminNotices, chat_name
from bot.sessions.ports.accounts import CountStore
from channels.messages import Address, Button, Membership
from policy.document.model import Document
from policy.labels import Level

ADDED: Final = "I was added to {chat}, which nobody classified, by {who}."
SPOKEN_TO: Final = "I was addressed in {chat}, which nobody classified, by {who}."
UNVOUCHED: Final = (
    "Nobody vouches for the members of {chat} any more: it was joined by {who}. `/classify {chat} vouch` does."
)
STEPS: Final = (
    "Nothing is taken in there until an admin classifies it with `/classify {chat} LEVEL`. "
    "`/block chat {chat}` keeps it so."
)

MOST: Final = 10
"""The most chats of one channel that admins are told of in an hour."""

WEEK_MS: Final = 7 * 24 * HOUR_MS
"""A chat that is still not classified after a week is reported again, when a person speaks to the bot there."""

_TELLING_MS: Final = 5 * 60 * 1000


class NewChats:
    """Tells admins of new chats."""

    def __init__(self, store: CountStore, gate: Gate, notices: AdminNotices) -> None:
        self._store = store
        self._gate = gate
        self._notices = notices

    async def added(self, event: Membership) -> None:
        """Note that this bot was added to a shared chat. Raises StoreError.

        A platform redelivers the event until it is confirmed, and then the notice continues where it was left.
        """
        name = f"chat/{event.address.place}/{event.dedupe}"
        left = await self._store.count(name, _TELLING_MS) > 1
        await self._seen(event.address, event.by, added=True, left=left)
        await self._store.keep(name, 0)

    async def spoken_to(self, address: Address, account: str) -> None:
        """Note that an account spoke to this bot in a shared chat. Raises StoreError."""
        await self._seen(address, account, added=False, left=False)

    async def _seen(self, address: Address, account: str, *, added: bool, left: bool) -> None:
        place, document = address.place, self._gate.document
        if not _is_new(document, place):
            return
        name = f"chat/{place}"
        # If this process ends before an admin is told, another try is made after five minutes.
        if await self._store.count(name, _TELLING_MS) > 1 and not left:
            return
        bounded = await self._store.count(f"chats/{place.channel}", HOUR_MS) > MOST
        told = not bounded and await self._told(place, account, added=added)
        await self._store.keep(name, WEEK_MS if told else 0)

    async def unvouched(self, event: Membership) -> None:
        """Tell admins that a chat's members are not vouched for any more, since an account joined it.

        Another process may have had the same event. Raises StoreError.
        """
        place = event.address.place
        name = f"unvouched/{place}/{event.dedupe}"
        if await self._store.count(name, HOUR_MS) > 1:
            return
        chat = chat_name(place)
        text = UNVOUCHED.format(who=_who(self._gate.document, event.account), chat=chat)
        again = (Button("Vouch for its members", f"/classify {chat} vouch"),)
        await self._notices.tell(place, text, lambda _: again)

    async def _told(self, place: Address, account: str, *, added: bool) -> bool:
        """Tell the admins of a new chat; return whether anyone was told."""
        document, chat = self._gate.document, chat_name(place)
        text = f"{(ADDED if added else SPOKEN_TO).format(who=_who(document, account), chat=chat)}\n"
        steps = text + STEPS.format(chat=chat)
        return await self._notices.tell(place, steps, lambda caller: _buttons(document, place, caller, chat))


def _is_new(document: Document, place: Address) -> bool:
    known = document.chat(place.channel, place.workspace, place.chat)
    return known is None and place.channel in document.channels and labelling.classification(document, place) is None


def _who(document: Document, account: str) -> str:
    if not account:
        return "somebody"
    known = document.principal(account)
    return f"{account}, an unknown account" if known is None else f"{known[0]} ({account})"


def _buttons(document: Document, place: Address, caller: Caller, chat: str) -> tuple[Button, ...]:
    """Return the buttons of a caller: levels up to their clearance and the channel's classification, and a block."""
    most = document.channel(place.channel).classification.meet(caller.clearance)
    levels = [level.name for level in Level if level <= most.level]
    return (
        *(Button(name, f"/classify {chat} {name}") for name in levels),
        Button("Block", f"/block chat {chat}"),
    )
