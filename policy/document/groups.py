"""Groups of people, and ends of access: the policy as it is at a moment.

A group gives its members a role, a clearance and the right to release, each beside the rights of their own entry. A
member may be a group itself; its members then are members of both. A membership may have an end, and so may a person's
access. A person whose access ended is unknown, as if their entry were not there; their name and accounts stay theirs.
The clearance of a platform's members is not for them: the end of an access raises nothing.

Nothing here knows the time: callers give the moment. `moments` are the ends, so that they know when to ask again. A
file's document alone has no memberships; `policy_at` gives them.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from policy.document.entries import Principal
from policy.document.overrides import Overrides, in_force
from policy.request import Role

if TYPE_CHECKING:
    from policy.document.entries import Group
    from policy.document.model import Document

_RANK: Final = tuple(Role)


def ended(until: datetime | None, now: datetime) -> bool:
    """Say whether an end of access has come; the moment itself is after it."""
    return until is not None and now >= until


def memberships(groups: "Mapping[str, Group]", now: datetime | None = None) -> Mapping[str, frozenset[str]]:
    """Return each person's groups, also those of groups of groups.

    Args:
        groups: The groups of a document, without a cycle.
        now: The moment, None for the memberships at any time.
    """
    found = dict[str, set[str]]()
    for name in groups:
        for person in _people(groups, name, now):
            found.setdefault(person, set()).add(name)
    return MappingProxyType({person: frozenset(names) for person, names in found.items()})


def _people(groups: "Mapping[str, Group]", name: str, now: datetime | None) -> Iterator[str]:
    """Yield the people of a group, perhaps several times."""
    for member in groups[name].members:
        if now is not None and ended(member.until, now):
            continue
        if member.name in groups:
            yield from _people(groups, member.name, now)
        else:
            yield member.name


def granted(person: Principal, groups: "Collection[Group]") -> Principal:
    """Return a person with the grants of groups: the join of all clearances, the highest role, each right."""
    clearance, role = person.clearance, person.role
    for group in groups:
        clearance = clearance if group.clearance is None else clearance.join(group.clearance)
        role = role if group.role is None else min(role, group.role, key=_RANK.index)
    may_release = person.may_release or any(group.may_release for group in groups)
    if (clearance, role, may_release) == (person.clearance, person.role, person.may_release):
        return person
    return person.model_copy(update={"clearance": clearance, "role": role, "may_release": may_release})


def policy_at(document: "Document", overrides: Overrides, now: datetime) -> "Document":
    """Return the policy in force at a moment: a file's policy with its groups, people's changes and ends of access.

    A change lowers the grants of groups, too. People whose access ended are left out last, so that no change made while
    Lockgate runs lets them in again, and no other person gets their name or account.

    Args:
        document: The file's policy.
        overrides: People's changes.
        now: The moment.
    """
    return _without_ended(in_force(_with_groups(document, now), overrides), now)


def moments(document: "Document") -> Iterator[datetime]:
    """Yield every end of an access or a membership, in any order."""
    entries = (*document.principals.values(), *(one for group in document.groups.values() for one in group.members))
    return (entry.until for entry in entries if entry.until is not None)


def _with_groups(document: "Document", now: datetime) -> "Document":
    if not document.groups:
        return document
    known = memberships(document.groups, now)
    people = {
        name: granted(person, [document.groups[group] for group in sorted(known.get(name, ()))])
        for name, person in document.principals.items()
    }
    return document.model_copy(update={"principals": MappingProxyType(people)}).with_memberships(known)


def _without_ended(document: "Document", now: datetime) -> "Document":
    left = {name: who for name, who in document.principals.items() if not ended(who.until, now)}
    if len(left) == len(document.principals):
        return document
    gone = document.principals.keys() - left.keys()
    known = {name: groups for name, groups in document.memberships.items() if name not in gone}
    accounts = frozenset(account for name in gone for account in document.principals[name].accounts)
    without = document.model_copy(update={"principals": MappingProxyType(left)})
    return without.with_memberships(known).with_ended(accounts)
