"""Labels and clearances from configuration and runtime facts, and from nothing else.

The only module outside `policy/` that changes labels (law `labels_are_never_parsed_from_content`): it looks up the
label of a message and the clearance of a reader in the policy document. Unknown means worst: unknown data is top, an
unknown reader or place is PUBLIC.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import reduce

from bot.access import principals
from bot.sessions.background.runs import UNREAD
from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from policy.document.entries import Chat
from policy.document.model import Document
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Integrity, Label, Level, parse
from policy.request import Destination, ListedReaders, Others, Role

MAY_BE_TRUSTED = frozenset({Role.OWNER, Role.ADMIN, Role.APPROVER, Role.MEMBER})
"""Roles whose own typing is TRUSTED."""

CONFIGURED = Label(Level.INTERNAL)
"""The label of config.yaml's content: it is for people who work with the installation, and holds no data of theirs."""


MOST_LISTED = 50
"""The most readers of an address that the record of a decision names."""


def untrusted(label: Label) -> Label:
    """Return the label with UNTRUSTED integrity."""
    return replace(label, integrity=Integrity.UNTRUSTED)


def bounded(taint: Label, asked: Label) -> Label:
    """Return the label of an answer of a structured result: the level of all that was read, endorsed integrity.

    `asked` is the label of the source of the fields, before any of the data was read. Members that UNTRUSTED data may
    have written endorse nothing.
    """
    return replace(taint, integrity=asked.integrity)


def named(document: Document, text: str) -> Label:
    """Return a label named by a person or a call, which only bounds a request and labels nothing.

    The list of compartments is for people who may see the configuration, so no refusal shows it.

    Raises LabelTextError: the text is not a label, or names an unknown compartment.
    """
    label = parse(text)
    strange = sorted(label.compartments.difference(document.compartments))
    if strange:
        raise LabelTextError(f"unknown compartment `{strange[0]}`")
    return label


def trusts_members(document: Document, principal: str, home: Address) -> bool:
    """Say whether a session's shared chat lets the words of each member command for every other member."""
    place = principals.address(principal) if principals.is_chat(principal) else home
    chat = document.chat(place.channel, place.workspace, place.chat)
    return chat is not None and chat.unsafe_trust_all_members


def others(document: Document, principal: str, home: Address, people: Collection[str]) -> Others | None:
    """Return the facts about people other than the asker whose words are in a context, None if none count.

    They are looked up in the policy in force: an unknown person is a stranger cleared for PUBLIC.
    """
    if not people or trusts_members(document, principal, home):
        return None
    known = [document.principals.get(person) for person in people]
    return Others(
        reduce(Label.meet, (PUBLIC if person is None else person.clearance for person in known)),
        frozenset(Role.STRANGER if person is None else person.role for person in known),
    )


def among_others(document: Document, principal: str, home: Address) -> bool:
    """Say whether a session belongs to a shared chat in which words of people other than the asker do not command."""
    return principals.is_chat(principal) and not trusts_members(document, principal, home)


def members_words(document: Document, principal: str, home: Address, label: Label) -> Label:
    """Return the label of a text that any member of a session's shared chat may have worded; elsewhere it stays."""
    return untrusted(label) if among_others(document, principal, home) else label


def inbound(document: Document, address: Address, role: Role, *, authored: bool, shared: bool = False) -> Label:
    """Return the label of a text arriving at an address.

    A text in a classified chat is as high as the chat, unless the policy says otherwise. A text of an unknown channel
    is top, and so is one of a shared chat without a classification.

    Args:
        document: The policy in force.
        address: The address.
        role: The role of the sender.
        authored: Whether the sender typed it: a forward, quote or file is UNTRUSTED for every sender.
        shared: Whether the chat is shared.
    """
    chat = document.chat(address.channel, address.workspace, address.chat)
    label = document.channel(address.channel).inbound
    if chat is not None:
        label = chat.inbound or replace(chat.classification, integrity=Integrity.TRUSTED)
    elif shared:
        label = document.top
    return label if authored and role in MAY_BE_TRUSTED else untrusted(label)


def blocked(document: Document, address: Address) -> bool:
    """Say whether an admin blocked a chat: nothing is said there, not even that it is blocked."""
    return _is_blocked(document.chat(address.channel, address.workspace, address.chat))


def _is_blocked(chat: Chat | None) -> bool:
    return chat is not None and chat.blocked


def classification(document: Document, address: Address, *, shared: bool = True) -> Label | None:
    """Return the configured classification of an address, None for an unknown place.

    A place with several names is cleared for the meet of them, and a blocked chat for nothing. A private chat (`shared`
    is false) needs no name: it is cleared as its channel is, and its reader's clearance bounds that. A session or a run
    is cleared like its principal; its taint is compared when something arrives there.
    """
    if address.channel in UNREAD:
        return _of_principal(document, address.workspace)
    place = (address.channel, address.workspace, address.chat)
    chat = document.chat(*place)
    if _is_blocked(chat):
        return None
    clearances = [
        recipient.clearance
        for recipient in document.places
        if (recipient.channel, recipient.workspace, recipient.chat) == place
    ]
    if chat is not None:
        clearances.append(chat.classification)
    if not clearances and (shared or address.channel not in document.channels):
        return None
    return reduce(Label.meet, clearances, document.channel(address.channel).classification)


def private_places(document: Document, principal: str, label: Label, first: str = "") -> tuple[Address, ...]:
    """Return the private chats of a person where something of this label may be told to them alone.

    `first` is the address, as text, where they set the work going: it comes first if they are alone there. The console
    comes last, as no person may be at it. The actual readers are asked for when something is sent.
    """
    person = document.principals.get(principal)
    if person is None or not label.flows_to(person.clearance):
        return ()
    accounts = [account for account in person.accounts if account not in document.blocked]
    known = {chat: classification(document, chat, shared=False) for chat in map(principals.private_chat, accounts)}
    cleared = [chat for chat, most in known.items() if most is not None and label.flows_to(most)]
    cleared.sort(key=lambda chat: chat.channel == principals.CONSOLE)
    began = Address.parse(first) if first else None
    if began is None or began.recipient or began.place not in cleared:
        return tuple(cleared)
    return (began, *(chat for chat in cleared if chat != began.place))


def expected(document: Document, address: Address) -> Destination:
    """Return an address as far as configuration knows it, its clearance unknown for an unknown place.

    A private chat of a known person is cleared for at most that person's clearance, and needs no name of its own. The
    present readers are asked for when something is sent.
    """
    reader_there = document.principals.get(principals.owner(document, address))
    shared = document.chat(address.channel, address.workspace, address.chat) is not None
    if reader_there is None or shared:
        return Destination(str(address), address.channel, classification(document, address), shared=shared)
    most = classification(document, address, shared=False) or PUBLIC
    known = reader_there.clearance
    return Destination(str(address), address.channel, most.meet(known), readers=known, raised=most)


def _of_principal(document: Document, principal: str) -> Label | None:
    """Return the clearance of a principal, None for an unknown one."""
    if principals.is_chat(principal):
        return classification(document, principals.address(principal))
    person = document.principals.get(principal)
    return None if person is None else person.clearance


def ceiling(document: Document, principal: str, asker: str) -> Label | None:
    """Return the most that may be read for a principal when a person asks, None if either is unknown.

    In a shared chat that is the chat's classification, met with the asker's clearance.
    """
    known, person = _of_principal(document, principal), document.principals.get(asker)
    return None if known is None or person is None else known.meet(person.clearance)


def reader(document: Document, one: Reader) -> Label:
    """Return the clearance of an account that reads: its principal's, or that of the channel's own members.

    Any other account is cleared for PUBLIC: guests, strangers, unknown programs, and accounts that are blocked or whose
    access ended.
    """
    known = document.principal(one.account)
    if known is not None:
        return known[1].clearance
    if one.kind is not ReaderKind.MEMBER or one.account in document.blocked or one.account in document.ended:
        return PUBLIC
    return document.channel(one.account.partition(":")[0]).members


def _all_readers_known(audience: Audience, chat: Chat | None) -> bool:
    """Say whether a platform lists all readers of an address, or an admin vouches for the members of that chat."""
    listed = audience.complete and bool(audience.readers)
    return listed or (audience.shared and chat is not None and chat.members_vouched)


def destination(document: Document, address: Address, audience: Audience) -> Destination:
    """Return an address with its effective clearance: its classification meet every reader's.

    An audience the platform cannot list completely, an empty one, or an unknown place makes it unknown, which the rules
    read as PUBLIC. An admin may vouch for the members of a chat that cannot be listed; known readers still count there.
    A session or a run has no audience: it has no readers but itself.
    """
    clearance = classification(document, address, shared=audience.shared)
    if address.channel in UNREAD:
        return Destination(str(address), address.channel, clearance, shared=audience.shared)
    listed = _listed(audience)
    chat = document.chat(address.channel, address.workspace, address.chat)
    known = reduce(Label.meet, (reader(document, one) for one in audience.readers), document.top)
    vouched, raised = None, None
    if not _all_readers_known(audience, chat):
        if audience.shared and chat is not None and clearance is not None:
            vouched = clearance.meet(known)
        known, clearance = PUBLIC, None
    elif not audience.shared and all(document.principal(one.account) for one in audience.readers):
        raised = clearance
    return Destination(
        str(address),
        address.channel,
        clearance if clearance is None else clearance.meet(known),
        shared=audience.shared,
        readers=PUBLIC if _is_blocked(chat) else known,
        vouched=vouched,
        raised=raised,
        listed=listed,
    )


def _listed(audience: Audience) -> ListedReaders:
    """Return the readers of an address by name, unless they are many."""
    if len(audience.readers) > MOST_LISTED:
        return ListedReaders((), audience.complete, many=True)
    accounts = tuple(sorted((one.account, one.kind.value) for one in audience.readers))
    return ListedReaders(accounts, audience.complete)


def least_above(document: Document, clearance: Label, found: Label) -> Label:
    """Return the least label of the configuration that does not flow to a clearance, `found` if they all do.

    It stands for any found label that does not, so that a message about it is the same for all of these.
    """
    levels = map(Label, Level)
    compartments = (Label(PUBLIC.level, frozenset({one})) for one in document.compartments)
    return next((label for label in (*levels, *compartments) if not label.flows_to(clearance)), found)


def only_removed_lacks(document: Document, label: Label, reader: Label) -> bool:
    """Say whether a reader may not know a label only because of compartments that the policy does not have any more.

    Its data took on these compartments by a choice that this reader may know of, so they may be told the fact.
    """
    kept = replace(label, compartments=label.compartments.intersection(document.compartments))
    return kept != label and kept.flows_to(reader)


def asked_anew(document: Document, address: Address, role: Role, there: Destination) -> tuple[Label, Label | None]:
    """Return the label of a text typed at an address, and its label if the address were classified for its readers.

    The second is None where it is not lower, or where a source other than the classification sets the label. No person
    types in a background session or a run, so nothing is asked again there.
    """
    if address.channel in UNREAD:
        return document.top, None
    fresh = inbound(document, address, role, authored=True, shared=there.shared)
    chat = document.chat(address.channel, address.workspace, address.chat)
    if chat is None or chat.inbound is not None or there.readers is None or fresh.flows_to(there.readers):
        return fresh, None
    return fresh, replace(there.readers, integrity=fresh.integrity).meet(fresh)
