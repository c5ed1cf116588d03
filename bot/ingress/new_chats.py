"""Chats that need an admin: the admins are told of one in private, once, with what they can do about it.

Those are chats that nobody classified, and those whose members nobody vouches for any more since somebody joined.

Anybody may add the bot to a chat or speak to it there, so how many chats are told of in an hour is bounded for each
channel; one that was left out is told of when somebody speaks to the bot there again. What a chat is called is not
told: others chose it. Nothing here decides anything, the buttons are commands like any others.
"""

from collections.abc import Callable
from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller, Ingress, at_least
from bot.access.decision_context import DecisionContext
from bot.core.clock import Clock
from bot.delivery.alternatives import private_chats
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.sessions.ports import CountStore
from channels.messages import Address, Button, Membership
from policy.document.model import Document
from policy.document.overrides import ChatPlace
from policy.labels import Level
from policy.request import Role

ADDED: Final = "{who} added me to a chat that nobody classified: {chat}"
SPOKEN_TO: Final = "{who} speaks to me in a chat that nobody classified: {chat}"
UNVOUCHED: Final = "{who} joined {chat}; nobody vouches for its members any more, `/classify {chat} vouch`"
STEPS: Final = (
    "nothing is taken in there until an admin says what may be said there, `/classify {chat} LEVEL`; "
    "`/block chat {chat}` keeps it so"
)

MOST: Final = 10
"""Of how many chats of one channel admins are told in an hour."""

HOUR_MS: Final = 60 * 60 * 1000
WEEK_MS: Final = 7 * 24 * HOUR_MS
"""After a week a chat that is still not classified is told of again, when somebody speaks to the bot there."""

_TELLING_MS: Final = 5 * 60 * 1000


class NewChats:
    """Tells admins of new chats."""

    def __init__(self, store: CountStore, gate: Gate, outbox: Outbox, clock: Clock) -> None:
        self._store = store
        self._gate = gate
        self._outbox = outbox
        self._clock = clock

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
        chat = _named(address.place)
        text = UNVOUCHED.format(who=_who(self._gate.document, account), chat=chat)
        again = (Button("Vouch for its members", f"/classify {chat} vouch"),)
        await self._tell(address.place, text, lambda _: again)

    async def _told(self, place: Address, account: str, *, added: bool) -> bool:
        """Tell the admins of a new chat; return whether anybody was."""
        document, chat = self._gate.document, _named(place)
        text = f"{(ADDED if added else SPOKEN_TO).format(who=_who(document, account), chat=chat)}\n"
        steps = text + STEPS.format(chat=chat)
        return await self._tell(place, steps, lambda caller: _buttons(document, place, caller, chat))

    async def _tell(self, place: Address, text: str, buttons: Callable[[Caller], tuple[Button, ...]]) -> bool:
        """Tell the admins something of a chat, each in private; return whether anybody was told."""
        told = False
        for caller, home in admins(self._gate.document, place, self._outbox.channels):
            destination = await self._gate.readers.destination(home)
            if destination.shared:
                continue
            standing = DecisionContext.of_caller(caller, home, destination, self._clock.wall_ms())
            told |= await self._outbox.tell(standing, text, buttons(caller))
        return told


def admins(document: Document, place: Address, served: tuple[str, ...]) -> list[tuple[Caller, Address]]:
    """Return everybody who may classify a chat, each with one private chat: of its channel, or of another served."""
    found = list[tuple[Caller, Address]]()
    for name, person in document.principals.items():
        if not at_least(person.role, Role.ADMIN):
            continue
        homes = [home for home in private_chats(document, name, place) if home.channel in served]
        caller = Caller(name, person.role, person.clearance, Ingress.COMMAND)
        found += [(caller, home) for home in homes[:1]]
    return found


def _is_new(document: Document, place: Address) -> bool:
    known = document.chat(place.channel, place.workspace, place.chat)
    return known is None and place.channel in document.channels and labelling.classification(document, place) is None


def _named(place: Address) -> str:
    return str(ChatPlace(place.channel, place.workspace, place.chat))


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
