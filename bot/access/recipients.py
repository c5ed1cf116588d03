"""Recipients: the people and places that a text may be sent to by name, and which sender may know of them.

A name is an alias of the configuration, the name that an admin gave a person, or the platform's id of a known chat.
Names that people choose on a platform do not count. A name with several possible places is refused, and so is one that
the sender may not know of: both with the words for an unknown name (law `no_read_up`).
"""

import json
from typing import Final, Protocol

from bot.access import labelling, principals
from bot.core.errors import RequestError
from channels.messages import Address
from policy.document.entries import Recipient
from policy.document.model import Document
from policy.document.programs import is_program
from policy.labels import Label

_KINDS: Final = "an alias of the configuration, the name an admin gave a person, or the platform's id of a known chat"
UNKNOWN: Final = f"unknown recipient: give {_KINDS}; one with several places is given as `channel:name`"
UNKNOWN_THERE: Final = f"unknown recipient on that channel: give {_KINDS}, without the channel before it"
"""The one refusal, whether there is no such recipient, several, or one that the sender may not know of.

The second is for a call that names the channel in a field of its own.
"""


CHANGED: Final = "the recipient is not who it was when this was decided, so nothing was sent"
"""Why nothing is sent to a name that was given another place or person meanwhile."""


class UnknownRecipientError(Exception):
    """A name that does not lead to exactly one place."""


class ChangedRecipientError(RequestError):
    """A name that was given another place or person since it was decided about."""

    code = "recipient"

    def __init__(self) -> None:
        super().__init__(CHANGED)


class SendingFor(Protocol):
    """The sender of a text: the principal of a session, its asker, and the most that both may know."""

    @property
    def principal(self) -> str:
        """The principal of the session."""
        ...

    @property
    def asker(self) -> str:
        """The person who set the work going."""
        ...

    @property
    def ceiling(self) -> Label:
        """The most that may be read for them."""
        ...


def find(document: Document, sender: SendingFor, name: str, channel: str = "") -> Address:
    """Return the one place that a sender names.

    Without a `channel` the name may bring it, as in `slack:ann`. A bare name is looked for on the one channel that an
    alias of it has, else that the person has, else the chat.

    Raises UnknownRecipientError: there is no such place, there are several, or the sender may not know of it.
    """
    if not channel and ":" in name:
        channel, _, name = name.partition(":")
    kinds = (_aliases(document, name), _private_chats(document, sender, name), _chats(document, sender, name))
    if not channel:
        first = next((kind for kind in kinds if kind), frozenset[Address]())
        channel = next((place.channel for place in first), "")
        if len({place.channel for place in first}) != 1:
            raise UnknownRecipientError
    found = {place for kind in kinds for place in kind if place.channel == channel}
    if len(found) != 1:
        raise UnknownRecipientError
    return found.pop()


def meaning(document: Document, address: Address) -> str:
    """Return the present meaning of a name that leads to an address: the address, and the owner of a private chat.

    It is only compared: a decision about a name is a decision about its meaning.
    """
    return json.dumps([str(address), principals.owner(document, address)])


def names(document: Document) -> tuple[tuple[str, Address], ...]:
    """Return every place of every alias with a name that `find` takes for it alone."""
    return tuple(
        (alias if len(places) == 1 else f"{place.channel}:{alias}", _place(place))
        for alias, places in sorted(document.recipients.items())
        for place in places
    )


def stays(document: Document, sender: SendingFor, home: Address, address: Address) -> bool:
    """Say whether a text at an address stays with the principal of a session at `home`.

    That is a private chat of the person, as long as the account is theirs. A shared chat is not a person, so for its
    session only the chat itself counts, where its answers go anyway.
    """
    if principals.is_chat(sender.principal):
        return address == home
    shared = document.chat(address.channel, address.workspace, address.chat) is not None
    return not shared and principals.owner(document, address) == sender.principal


def _aliases(document: Document, name: str) -> frozenset[Address]:
    """Return the places of an alias; every sender may know of the places that the operator named."""
    return frozenset(map(_place, document.recipients.get(name, ())))


def _private_chats(document: Document, sender: SendingFor, name: str) -> frozenset[Address]:
    """Return the private chats of the people with this name, or with this id on the platform."""
    chats = (
        (person, principals.private_chat(account))
        for person, entry in document.principals.items()
        if not is_program(person) and _knows_person(sender, person)
        for account in entry.accounts
        if document.principal(account) is not None
    )
    return frozenset(chat for person, chat in chats if name in {person, chat.chat})


def _chats(document: Document, sender: SendingFor, name: str) -> frozenset[Address]:
    """Return the shared chats with an id; a blocked chat is known to no sender."""
    places = (
        (chat.classification, Address(chat.channel, chat.chat, chat.workspace))
        for chat in document.chats.values()
        if chat.chat == name and not chat.blocked
    )
    return frozenset(
        place for label, place in places if principals.of_chat(place) == sender.principal or _knows(sender, label)
    )


def _knows_person(sender: SendingFor, person: str) -> bool:
    return person in {sender.principal, sender.asker} or _knows(sender, labelling.CONFIGURED)


def _knows(sender: SendingFor, label: Label) -> bool:
    """Say whether a sender may know of a fact of this label about the installation."""
    return label.join(labelling.CONFIGURED).flows_to(sender.ceiling)


def _place(recipient: Recipient) -> Address:
    return Address(recipient.channel, recipient.chat, recipient.workspace)
