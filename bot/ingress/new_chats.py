"""Chats that need an admin: the admins are told of one in private, once, with what they can do about it.

Those are chats that nobody classified, and those whose members nobody vouches for any more since somebody joined.

Anybody may add the bot to a chat or speak to it there, so how many chats are told of in an hour is bounded for each
channel; one that was left out is told of when somebody speaks to the bot there again. What a chat is called is not
told: others chose it. Nothing here decides anything, the buttons are commands like any others.
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

ADDED: Final = "{who} added me to a chat that nobody classified: {chat}"
SPOKEN_TO: Final = "{who} speaks to me in a chat that nobody classified: {chat}"
UNVOUCHED: Final = "{who} joined {chat}; nobody vouches for its members any more, `/classify {chat} vouch`"
STEPS: Final = (
    "nothing is taken in there until an admin says what may be said there, `/classify {chat} LEVEL`; "
    "`/block chat {chat}` keeps it so"
)

MOST: Final = 10
"""Of how many chats of one channel admins are told in an hour."""

WEEK_MS: Final = 7 * 24 * HOUR_MS
"""After a week a chat that is still not classified is told of again, when somebody speaks to the bot there."""

_TELLING_MS: Final = 5 * 60 * 1000


class NewChats:
    """Tells admins of new chats."""

    def __init__(self, store: CountStore, gate: Gate, notices: AdminNotices) -> None:
        self._store = store
        self._gate = gate
        self._notices = notices

    async def added(self, event: Membership) -> None:
        """Take note that this bot was added to a shared chat. Raises StoreError.

        A platform that was not told that this is kept tells it again, and so it is gone on with where it was left.
        """
        name = f"chat/{event.address.place}/{event.dedupe}"
        left = await self._store.count(name, _TELLING_MS) > 1
        await self._seen(event.address, event.by, added=True, left=left)
        await self._store.keep(name, 0)

    async def spoken_to(self, address: Address, account: str) -> None:
        """Take note that an account spoke to this bot in a shared chat. Raises StoreError."""
        await self._seen(address, account, added=False, left=False)

    async def _seen(self, address: Address, account: str, *, added: bool, left: bool) -> None:
        place, document = address.place, self._gate.document
        if not _is_new(document, place):
            return
        name = f"chat/{place}"
        # Should this process end before anybody is told, somebody is in five minutes.
        if await self._store.count(name, _TELLING_MS) > 1 and not left:
            return
        bounded = await self._store.count(f"chats/{place.channel}", HOUR_MS) > MOST
        told = not bounded and await self._told(place, account, added=added)
        await self._store.keep(name, WEEK_MS if told else 0)

    async def unvouched(self, address: Address, account: str) -> None:
        """Tell that nobody vouches for the members of a chat any more, since an account joined it."""
        chat = chat_name(address.place)
        text = UNVOUCHED.format(who=_who(self._gate.document, account), chat=chat)
        again = (Button("Vouch for its members", f"/classify {chat} vouch"),)
        await self._notices.tell(address.place, text, lambda _: again)

    async def _told(self, place: Address, account: str, *, added: bool) -> bool:
        """Tell the admins of a new chat; return whether anybody was."""
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
    return f"{account}, who is nobody here," if known is None else f"{known[0]} ({account})"


def _buttons(document: Document, place: Address, caller: Caller, chat: str) -> tuple[Button, ...]:
    """Return what a caller may press: what he and the channel may know at most, and a block."""
    most = document.channel(place.channel).classification.meet(caller.clearance)
    levels = [level.name for level in Level if level <= most.level]
    return (
        *(Button(name, f"/classify {chat} {name}") for name in levels),
        Button("Block", f"/block chat {chat}"),
    )
