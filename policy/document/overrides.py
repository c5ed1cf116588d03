"""The changes that people made while Lockgate runs, and the policy then in force: the meet of the changes and the file.

An override can let a person in up to the file's `paired`, and classify a chat up to its channel's classification. It
can lower the file's labels, remove an account or a chat, and add an account to a person. It can raise nothing above the
file's own limits. An override that the file no longer fits is void. A person let in by a label with an unknown
compartment, or over an unknown channel, is unknown; such a chat is unclassified. Two people who claim one account both
lose it, and the file's people keep theirs. No person has an account of a program. A claim outlasts its person: neither
blocking nor sending away passes an account on. So the policy in force does not depend on the number or order of
compositions.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from policy.document import reading
from policy.document.entries import Chat, Principal
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import Role

_K = TypeVar("_K")
_V = TypeVar("_V")

_RANK: Final = tuple(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """A person let in, or the changes about a person of the file.

    A stranger was sent away and is no longer known, but name and accounts stay theirs: conversations belong to them.
    """

    role: Role | None = None
    """None for as much as the file allows."""
    clearance: Label | None = None
    """None for as much as the file allows."""
    accounts: frozenset[str] = frozenset()
    """The accounts beside the file's."""

    @property
    def sent_away(self) -> bool:
        """Whether they are no longer known, unless the file names them."""
        return self.role is Role.STRANGER


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """A shared chat, by the platform's own ids."""

    channel: str
    workspace: str
    chat: str

    def __str__(self) -> str:
        """Return its name in a document, as commands take it: without a workspace where the channel has none.

        No name of a file has a colon, and different places have different names.
        """
        parts = (self.channel, self.workspace, self.chat) if self.workspace else (self.channel, self.chat)
        return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


@dataclass(frozen=True, slots=True)
class Placing:
    """The changes about a shared chat; None means the file's value."""

    classification: Label | None = None
    vouched: bool | None = None
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class AccessChange:
    """The new values that replace earlier ones; None removes one."""

    people: Mapping[str, Person | None] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[ChatPlace, Placing | None] = field(default_factory=lambda: MappingProxyType({}))
    accounts: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Overrides:
    """Everything that was changed and is still so; `blocked` are accounts."""

    people: Mapping[str, Person] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[ChatPlace, Placing] = field(default_factory=lambda: MappingProxyType({}))
    blocked: frozenset[str] = frozenset()

    def changed(self, change: AccessChange) -> "Overrides":
        """Return the overrides with a change applied."""
        blocked = {account for account, now in change.accounts.items() if now}
        return Overrides(
            _merged(self.people, change.people),
            _merged(self.places, change.places),
            (self.blocked - change.accounts.keys()) | blocked,
        )


def in_force(document: Document, overrides: Overrides) -> Document:
    """Return the file's policy with the overrides; without overrides, the document itself."""
    if overrides == Overrides():
        return document
    return document.model_copy(
        update={
            "principals": MappingProxyType(_people(document, overrides)),
            "blocked": tuple(sorted({*document.blocked, *overrides.blocked})),
            "chats": MappingProxyType(_chats(document, overrides.places)),
        }
    )


def lower(one: Role, other: Role) -> Role:
    """Return the one of two roles that may less."""
    return max(one, other, key=_RANK.index)


def _merged(before: Mapping[_K, _V], changes: Mapping[_K, _V | None]) -> Mapping[_K, _V]:
    kept = {key: value for key, value in before.items() if key not in changes}
    return MappingProxyType(kept | {key: value for key, value in changes.items() if value is not None})


def _people(document: Document, overrides: Overrides) -> dict[str, Principal]:
    people = dict(document.principals)
    accounts = _accounts(document, overrides.people)
    for name, person in overrides.people.items():
        made = _person(document, name, person, accounts[name])
        if made is not None:
            people[name] = made
    return {name: left for name, who in people.items() if (left := _without(who, overrides.blocked)) is not None}


def _accounts(document: Document, people: Mapping[str, Person]) -> dict[str, frozenset[str]]:
    """Return, by people, the accounts that are theirs alone; none if the file lets nobody be paired."""
    if document.paired is None:
        return dict.fromkeys(people, frozenset())
    claims = Counter(account for person in people.values() for account in person.accounts)
    owners = {account: name for name, who in document.principals.items() for account in who.accounts}
    return {
        name: frozenset(
            account
            for account in person.accounts
            if claims[account] == 1
            and owners.get(account, name) == name
            and account.partition(":")[0] in document.channels.keys() - {reading.API}
            and account.partition(":")[2]
        )
        for name, person in people.items()
    }


def _person(document: Document, name: str, person: Person, accounts: Collection[str]) -> Principal | None:
    """Return the principal that an override makes, None for one that is void or changes nobody."""
    known, ceiling = document.principals.get(name), document.paired
    if known is not None:
        clearance = known.clearance if person.clearance is None else known.clearance.meet(person.clearance)
        role = known.role if person.role is None else lower(known.role, person.role)
        more = tuple(sorted(set(accounts).difference(known.accounts)))
        return known.model_copy(update={"role": role, "clearance": clearance, "accounts": (*known.accounts, *more)})
    if (
        ceiling is None
        or person.sent_away
        or not accounts
        or not reading.is_name(name)
        or name in document.groups
        or not _known(document, person.clearance)
    ):
        return None
    return Principal.model_construct(
        role=ceiling.role if person.role is None else lower(ceiling.role, person.role),
        clearance=ceiling.clearance if person.clearance is None else ceiling.clearance.meet(person.clearance),
        accounts=tuple(sorted(accounts)),
        may_release=False,
    )


def _without(who: Principal, blocked: Collection[str]) -> Principal | None:
    """Return a principal without blocked accounts, None if no account is left."""
    left = tuple(account for account in who.accounts if account not in blocked)
    if left == who.accounts:
        return who
    return who.model_copy(update={"accounts": left}) if left else None


def _chats(document: Document, places: Mapping[ChatPlace, Placing]) -> dict[str, Chat]:
    chats = dict(document.chats)
    names = {ChatPlace(chat.channel, chat.workspace, chat.chat): name for name, chat in chats.items()}
    for place, placing in places.items():
        name = names.get(place, str(place))
        made = _lowered(chats[name], placing) if name in chats else _classified(document, place, placing)
        if made is not None:
            chats[name] = made
    return chats


def _lowered(known: Chat, placing: Placing) -> Chat:
    changes: dict[str, object] = {"blocked": known.blocked or placing.blocked}
    if placing.classification is not None:
        changes["classification"] = known.classification.meet(placing.classification)
    if placing.vouched is not None:
        changes["members_vouched"] = placing.vouched
    return known.model_copy(update=changes)


def _classified(document: Document, place: ChatPlace, placing: Placing) -> Chat | None:
    """Return a chat that the file does not name, None for one that stays unclassified; programs have no chats."""
    channel = document.channels.get(place.channel)
    label = placing.classification if _known(document, placing.classification) else None
    if channel is None or place.channel == reading.API or (label is None and not placing.blocked):
        return None
    return Chat.model_construct(
        channel=place.channel,
        chat=place.chat,
        workspace=place.workspace,
        classification=(label or PUBLIC).meet(channel.classification),
        inbound=None,
        members_vouched=placing.vouched is True,
        blocked=placing.blocked,
    )


def _known(document: Document, label: Label | None) -> bool:
    """Say whether the file knows all compartments of a label."""
    return label is None or label.compartments.issubset(document.compartments)
