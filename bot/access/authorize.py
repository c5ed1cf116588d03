"""Authorization: one function for text, commands and buttons alike.

Access is denied by default. An account that belongs to no principal is a stranger and may do nothing; the owner is
looked up like any other person.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bot.access.principals import is_chat
from policy.document.model import Document
from policy.document.overrides import lower
from policy.labels import Label
from policy.request import Role

_RANK: Final = tuple(Role)


class Ingress(StrEnum):
    """The way a request came in; every kind passes the same check."""

    TEXT = "text"
    COMMAND = "command"
    BUTTON = "button"
    OPENED = "opened"
    API = "api"


@dataclass(frozen=True, slots=True)
class Caller:
    """A recognised account: its principal, role and clearance, and the way the request came in."""

    principal: str
    role: Role
    clearance: Label
    ingress: Ingress


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused account; `reason` is for the audit, not for the sender.

    `needed` is the role that a known person lacks who may use the bot otherwise, None for anyone else.
    """

    account: str
    ingress: Ingress
    reason: str
    needed: Role | None = None


def at_least(role: Role, needed: Role) -> bool:
    """Say whether a role includes another's rights."""
    return _RANK.index(role) <= _RANK.index(needed)


def role(document: Document, principal: str, asker: str) -> Role:
    """Return the role in which a session of a principal acts when a person asks; a shared chat is a member at most."""
    person = document.principals.get(asker)
    if person is None:
        return Role.STRANGER
    return lower(Role.MEMBER, person.role) if is_chat(principal) else person.role


def may_release(document: Document, principal: str, label: Label) -> bool:
    """Say whether a principal holds the right to release, for a text of this label."""
    person = document.principals.get(principal)
    return person is not None and person.may_release and label.flows_to(person.clearance)


def authorize(document: Document, account: str, ingress: Ingress, needed: Role = Role.MEMBER) -> Caller | Refusal:
    """Decide whether an account may do something that needs a role.

    Args:
        document: The policy in force.
        account: The platform's identity, verbatim.
        ingress: The way the request came in.
        needed: The least role.

    Returns:
        The caller, or a refusal to be audited.
    """
    known = document.principal(account)
    if known is None:
        return Refusal(account, ingress, "no principal has this account")
    name, principal = known
    if not at_least(principal.role, needed):
        lacks = needed if at_least(principal.role, Role.MEMBER) else None
        return Refusal(account, ingress, f"role {principal.role} is below {needed}", lacks)
    return Caller(name, principal.role, principal.clearance, ingress)
