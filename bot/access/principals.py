"""Names of principals: a person's name is configured, a shared chat's name is made of its address.

A shared chat is a principal of its own: it owns its sessions and their workspace, and personal objects of people cannot
be reached from it. No configured name has a colon, so that a person and a chat cannot be confused.

An account is `channel:id`, or `channel:workspace:id` where ids of people collide between workspaces. The address of its
owner's private chat is made of the same parts, so that no look-up is needed.
"""

from dataclasses import replace
from typing import Final

from bot.sessions.background.delegation import SESSION
from channels.messages import Address
from policy.document.model import Document
from policy.document.reading import API

CONSOLE: Final = "console"
"""The channel of the person at this machine, as the operating system names them; there may be no such person."""

_CHAT: Final = "chat:"


def of_chat(address: Address) -> str:
    """Return the principal that stands for the shared chat of an address, for all threads."""
    return f"{_CHAT}{address.place}"


def is_chat(principal: str) -> bool:
    """Say whether a principal is a shared chat."""
    return principal.startswith(_CHAT)


def is_of_program(account: str) -> bool:
    """Say whether an account is a program's, which has a token and is on no platform."""
    return account.startswith(f"{API}:")


def address(principal: str) -> Address:
    """Return the address of the shared chat that a principal stands for; the inverse of `of_chat`."""
    return Address.parse(principal.removeprefix(_CHAT))


def private_chat(account: str) -> Address:
    """Return the address of the private chat of an account's owner."""
    channel, *workspace, chat = account.split(":", 2)
    return Address(channel, chat, *workspace)


def aside(document: Document, principal: str, home: Address) -> Address | None:
    """Return the address of messages to a person alone in a shared chat, None if they have no account there."""
    person = document.principals.get(principal)
    for account in () if person is None else person.accounts:
        own = private_chat(account)
        if (own.channel, own.workspace) == (home.channel, home.workspace):
            return replace(home, recipient=recipient(account))
    return None


def reader(address: Address) -> str:
    """Return the account of the recipient of an address that has one."""
    return ":".join(filter(None, (address.channel, address.workspace, address.recipient)))


def owner(document: Document, address: Address) -> str:
    """Return the person whose private chat an address is, or who alone sees messages there; empty if unknown."""
    known = document.principal(reader(replace(address, recipient=address.recipient or address.chat)))
    return "" if known is None else known[0]


def meant_for(principal: str, asker: str, home: Address, address: Address) -> str:
    """Return the principal that a text of a session at `home` is meant for at an address, empty if unspecific.

    A session's own private chat is its principal's, also after the account got another owner.
    """
    if address.recipient:
        return asker
    own = address.place == home.place and home.channel != SESSION and not is_chat(principal)
    return principal if own else ""


def is_anothers(document: Document, address: Address, meant: str, *, ours: bool = False) -> bool:
    """Say whether a text meant for a principal would reach another person there, or its principal is unknown now.

    A text that is `ours`, from the program itself, may tell people at their own account that they are not known any
    more.
    """
    now = owner(document, address)
    return bool(meant) and (now != meant if now else not ours and meant not in document.principals)


def recipient(account: str) -> str:
    """Return the name of an account in an address that only this account can see."""
    return account.rpartition(":")[2]
