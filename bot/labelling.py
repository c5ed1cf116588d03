"""Labels and clearances from configuration and runtime facts, and from nothing else.

The only module outside `policy/` that changes labels (law `labels_are_never_parsed_from_content`): what a
message is and what a reader may receive is looked up here, in the policy document. Whatever is not
known is the worst: unknown data is top, an unknown reader or place is PUBLIC.
"""

from dataclasses import replace
from functools import reduce

from bot.sessions.kin import SESSION
from channels.base import Audience
from channels.message import Address
from policy.document import Document
from policy.labels import PUBLIC, Integrity, Label
from policy.request import Destination, Role

MAY_BE_TRUSTED = frozenset({Role.OWNER, Role.ADMIN, Role.APPROVER, Role.MEMBER})
"""Roles whose own typing is TRUSTED (SPEC B, inbound label)."""


def untrusted(label: Label) -> Label:
    """Return the label with UNTRUSTED integrity."""
    return replace(label, integrity=Integrity.UNTRUSTED)


def bounded(taint: Label, asked: Label) -> Label:
    """Return the label of an answer that `bot.bounded` made: the level of all that was read, endorsed integrity.

    `asked` is the label of what gave the fields, before any of that was read. Members that UNTRUSTED data may have
    written endorse nothing.
    """
    return replace(taint, integrity=asked.integrity)


def inbound(document: Document, address: Address, role: Role, *, authored: bool) -> Label:
    """Return the label of a text arriving at an address.

    `authored` tells that the sender typed it himself: a forward, quote or file is UNTRUSTED whoever sends
    it. What is said in a classified chat is as high as the chat, unless the policy says otherwise. An unknown
    channel's text is top.
    """
    chat = document.chat(address.channel, address.workspace, address.chat)
    label = document.channel(address.channel).inbound
    if chat is not None:
        label = chat.inbound or replace(chat.classification, integrity=Integrity.TRUSTED)
    return label if authored and role in MAY_BE_TRUSTED else untrusted(label)


def classification(document: Document, address: Address) -> Label | None:
    """Return what the configuration lets be said at an address, None if it does not know the place.

    A place that goes by several names is cleared for what all of them admit, and a blocked chat for nothing. A session
    is cleared like the principal it acts for; what it has read by then is compared when something arrives there.
    """
    if address.channel == SESSION:
        principal = document.principals.get(address.workspace)
        return None if principal is None else principal.clearance
    place = (address.channel, address.workspace, address.chat)
    chat = document.chat(*place)
    if chat is not None and chat.blocked:
        return None
    clearances = [
        recipient.clearance
        for recipient in document.recipients.values()
        if (recipient.channel, recipient.workspace, recipient.chat) == place
    ]
    if chat is not None:
        clearances.append(chat.classification)
    if not clearances:
        return None
    return reduce(Label.meet, clearances, document.channel(address.channel).classification)


def reader(document: Document, account: str) -> Label:
    """Return the clearance of an account: its principal's, PUBLIC for a stranger."""
    known = document.principal(account)
    return PUBLIC if known is None else known[1].clearance


def destination(document: Document, address: Address, audience: Audience) -> Destination:
    """Return an address with its effective clearance: its classification meet every reader's.

    An audience the platform cannot list completely, an empty one, or an unknown place makes it unknown,
    which the rules read as PUBLIC. A session has no audience: nobody reads there but that session.
    """
    clearance = classification(document, address)
    if clearance is not None and address.channel != SESSION:
        for account in audience.accounts:
            clearance = clearance.meet(reader(document, account))
        if not audience.complete or not audience.accounts:
            clearance = None
    return Destination(str(address), address.channel, clearance, shared=audience.shared)
