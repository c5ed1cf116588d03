"""The access matrix of a label, a chat or a folder: who may read, say, approve and release there, and by which entry.

Each cell is the answer of the function that decides when it counts: `authorize`, the ceilings and readers of
`bot.access.labelling`, and the eligibility of `bot.access.approvals`. The reason of a cell comes from the same
functions, asked about the person with a part of their entries alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from bot.access import approvals, labelling, principals
from bot.access.authorize import Caller, Ingress, at_least, authorize, may_release
from bot.core.errors import OperatorError
from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from policy.document.entries import Principal
from policy.document.groups import ended, granted
from policy.document.model import Document
from policy.document.overrides import ChatPlace, lower
from policy.document.programs import is_program
from policy.errors import LabelTextError, nearest
from policy.labels import PUBLIC, Label
from policy.request import Role

ENTRY: Final = "entry"
PAIRED: Final = "paired"
TOKEN: Final = "token"  # noqa: S105 - a word
"""The reasons of a cell beside groups: a person's own entry, being let in by command, and a program's token."""

MEMBERS: Final = "members"
VOUCHED: Final = "vouched"
ANYBODY: Final = "public"
"""The reasons of readers without an entry: the clearance of a channel's members, a vouched chat, a public label."""

_CHAT: Final = "chat"
_FOLDER: Final = "folder"
_LABEL: Final = "label"
_PARTS: Final = (2, 3)
"""The parts of a chat that is named by its address: channel, perhaps a workspace, and the chat."""


@dataclass(frozen=True, slots=True)
class AccessTarget:
    """A label, chat or folder that is asked about.

    Args:
        kind: One of the words label, chat and folder.
        name: Its name as people write it.
        label: The label that a reader needs there.
        address: The address of a chat.
        written: The highest label that may be written to a folder.
    """

    kind: str
    name: str
    label: Label
    address: Address | None = None
    written: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class AccessRow:
    """The rights of one person or program at a target.

    Args:
        name: The name of the principal.
        role: The role, None for a person without access at the moment.
        until: The end of the access, None for no end.
        ended: Whether that end has come.
        by: For each right that they have, the reason: entry, paired, token, or the names of groups.
    """

    name: str
    role: Role | None
    until: datetime | None
    ended: bool
    by: Mapping[str, tuple[str, ...]]


def target(document: Document, text: str) -> AccessTarget:
    """Return the target that a text names: a label, a chat of the policy by its name or address, or a folder.

    A folder may end with a slash.

    Raises:
        OperatorError: It names nothing, or both a chat and a folder.
    """
    chat, folder = _chat(document, text), text.removesuffix("/")
    is_folder = folder in document.folders
    if chat is not None and is_folder:
        place = ChatPlace(chat.channel, chat.workspace, chat.chat)
        raise OperatorError(f"`{text}` is a chat and a folder", next_step=f"write `{text}/` or `{place}`")
    if text == "top" or (text[:1].isupper() and not is_folder):
        return _of_label(document, text)
    if chat is not None:
        label = labelling.classification(document, chat)
        return AccessTarget(_CHAT, text, PUBLIC if label is None else label, chat)
    if is_folder:
        entry = document.folders[folder]
        return AccessTarget(_FOLDER, folder, entry.label, written=entry.clearance or PUBLIC)
    named = (*document.chats, *document.folders)
    raise OperatorError(
        f"there is no chat or folder `{text}`{nearest(text, named)}",
        next_step="name a label such as `INTERNAL`, an entry of `policy.chats`, or a folder such as `public/`",
    )


def _of_label(document: Document, text: str) -> AccessTarget:
    try:
        label = document.top if text == "top" else labelling.named(document, text)
    except LabelTextError as error:
        known = ", ".join(f"`{name}`" for name in sorted(document.compartments)) or "none yet"
        raise OperatorError(
            str(error), next_step=f"write one as `INTERNAL`, with compartments of `policy.compartments`, {known}"
        ) from None
    return AccessTarget(_LABEL, str(label), label)


def _chat(document: Document, text: str) -> Address | None:
    """Return the shared chat of a name or an address, None if the policy has none."""
    entry = document.chats.get(text)
    parts = text.split(":")
    if entry is None and len(parts) in _PARTS:
        entry = document.chat(parts[0], "" if len(parts) == _PARTS[0] else parts[1], parts[-1])
    return None if entry is None else Address(entry.channel, entry.chat, entry.workspace)


def reads(document: Document, name: str, asked: AccessTarget) -> bool:
    """Say whether a principal may read the label there; in a chat, whether they may be one of its readers."""
    person = document.principals.get(name)
    if person is None:
        return False
    if asked.address is None:
        known = labelling.ceiling(document, name, name)
        return known is not None and asked.label.flows_to(known)
    there = (
        labelling.destination(document, asked.address, Audience.of(account, shared=True)).clearance
        for account in _accounts(person, asked.address)
    )
    return any(clearance is not None and asked.label.flows_to(clearance) for clearance in there)


def says(document: Document, name: str, asked: AccessTarget) -> bool:
    """Say whether a principal may talk to the agent there.

    For a label: whether a conversation that has read it may answer them in private. For a folder: whether one that has
    read the folder may write there.
    """
    person = document.principals.get(name)
    if person is None:
        return False
    if asked.address is not None:
        chat = principals.of_chat(asked.address)
        known = labelling.ceiling(document, chat, name)
        return known is not None and _may_talk(document, _accounts(person, asked.address))
    if not _may_talk(document, person.accounts):
        return False
    if asked.kind == _FOLDER:
        return reads(document, name, asked) and asked.label.flows_to(asked.written)
    return bool(labelling.private_places(document, name, asked.label))


def _accounts(person: Principal, address: Address) -> tuple[str, ...]:
    """Return the accounts by which a person may be in a chat; people of other workspaces may be in a shared one."""
    return tuple(account for account in person.accounts if account.partition(":")[0] == address.channel)


def _may_talk(document: Document, accounts: Iterable[str]) -> bool:
    return any(isinstance(authorize(document, account, Ingress.TEXT), Caller) for account in accounts)


def approves(document: Document, name: str, asked: AccessTarget) -> bool:
    """Say whether a principal may approve another person's call in a session of that label."""
    return approvals.may_approve(document, asked.label, name)


def releases(document: Document, name: str, asked: AccessTarget) -> bool:
    """Say whether a principal may release a text of that label."""
    return may_release(document, name, asked.label)


def administers(document: Document, name: str, asked: AccessTarget) -> bool:  # noqa: ARG001 - as the others
    """Say whether a principal is an admin; that is the same everywhere."""
    person = document.principals.get(name)
    return person is not None and at_least(person.role, Role.ADMIN)


_Right = Callable[[Document, str, AccessTarget], bool]

RIGHTS: Final[Mapping[str, _Right]] = MappingProxyType(
    {"read": reads, "say": says, "approve": approves, "release": releases, "admin": administers}
)
"""The columns of the matrix."""


def matrix(file: Document, document: Document, asked: AccessTarget, now: datetime) -> Iterator[AccessRow]:
    """Yield the rights of every principal, in the order of their names.

    Args:
        file: The policy as it is in the file.
        document: The policy in force.
        asked: The label, chat or folder.
        now: The moment.
    """
    for name in sorted(file.principals.keys() | document.principals.keys()):
        person, entry = document.principals.get(name), file.principals.get(name)
        until = None if entry is None else entry.until
        by = {
            right: _reason(file, document, name, _bound(has, name, asked))
            for right, has in RIGHTS.items()
            if has(document, name, asked)
        }
        yield AccessRow(name, None if person is None else person.role, until, ended(until, now), MappingProxyType(by))


def unnamed(document: Document, asked: AccessTarget) -> Iterator[tuple[str, str]]:
    """Yield the readers that have no entry of their own, each with the reason: as their channels know them.

    For a label or a folder, these may be told the data in a shared chat.
    """
    if asked.label.flows_to(PUBLIC):
        yield "anybody", ANYBODY
        return
    address = asked.address
    for name, channel in sorted(document.channels.items()):
        if address is None and asked.label.flows_to(channel.members):
            yield f"members of {name}", MEMBERS
    if address is None:
        return
    member = Reader(":".join(filter(None, (address.channel, address.workspace, "*"))), ReaderKind.MEMBER)
    if _read_by(document, asked, Audience(frozenset({member}), complete=True, shared=True)):
        yield f"members of {address.channel}", MEMBERS
    if _read_by(document, asked, Audience(frozenset(), complete=False, shared=True)):
        yield "people that the platform does not list", VOUCHED


def _read_by(document: Document, asked: AccessTarget, audience: Audience) -> bool:
    address = asked.address
    known = None if address is None else labelling.destination(document, address, audience).clearance
    return known is not None and asked.label.flows_to(known)


def _bound(has: _Right, name: str, asked: AccessTarget) -> Callable[[Document], bool]:
    return lambda known: has(known, name, asked)


def _reason(file: Document, document: Document, name: str, holds: Callable[[Document], bool]) -> tuple[str, ...]:
    """Return the reason for a right: the person's own entry, or groups of which none can be left out."""
    entry = file.principals.get(name)
    if entry is None:
        return (TOKEN if is_program(name) else PAIRED,)
    needed = sorted(document.groups_of(name))
    for group in (*needed,):
        fewer = [one for one in needed if one != group]
        if holds(_only(document, name, granted(entry, [document.groups[one] for one in fewer]))):
            needed = fewer
    return tuple(needed) or (ENTRY,)


def _only(document: Document, name: str, given: Principal) -> Document:
    """Return a policy in which a person alone is known, with no more than a part of their entries gives."""
    person = document.principals[name]
    less = person.model_copy(
        update={
            "role": lower(person.role, given.role),
            "clearance": person.clearance.meet(given.clearance),
            "may_release": person.may_release and given.may_release,
        }
    )
    return document.model_copy(update={"principals": MappingProxyType({name: less})})
