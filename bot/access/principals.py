"""Names of principals: a person's is configured, a shared chat's is made of where it is.

A shared chat is a principal of its own: it owns its sessions and their workspace, and nobody's personal objects are
reached from it. No configured name has a colon, so that neither is mistaken for the other.

An account is `channel:id`, or `channel:workspace:id` where ids of people collide between workspaces. Where its owner is
spoken to in private is made of the same parts, so that nobody has to look it up.
"""

from dataclasses import replace
from typing import Final

from bot.sessions.background.delegation import SESSION
from channels.messages import Address
from policy.document.model import Document
from policy.document.reading import API

CONSOLE: Final = "console"
"""The channel of whoever sits at this machine, of whom its operating system says who he is; nobody may be there."""

_CHAT: Final = "chat:"


def of_chat(address: Address) -> str:
    """Return the principal that the shared chat of an address is, whatever the thread."""
    return f"{_CHAT}{address.place}"


def is_chat(principal: str) -> bool:
    """Say whether a principal is a shared chat."""
    return principal.startswith(_CHAT)


def is_of_program(account: str) -> bool:
    """Say whether an account is a program's, which has a token and is on no platform."""
    return account.startswith(f"{API}:")


def address(principal: str) -> Address:
    """Return where the shared chat is that a principal stands for; the inverse of `of_chat`."""
    return Address.parse(principal.removeprefix(_CHAT))


def private_chat(account: str) -> Address:
    """Return where the owner of an account is spoken to in private."""
    channel, *workspace, chat = account.split(":", 2)
    return Address(channel, chat, *workspace)


def reader(address: Address) -> str:
    """Return the account of the recipient of an address that has one."""
    return ":".join(filter(None, (address.channel, address.workspace, address.recipient)))


def owner(document: Document, address: Address) -> str:
    """Return whose private chat an address is, or who alone sees what is said there; empty if nobody known."""
    known = document.principal(reader(replace(address, recipient=address.recipient or address.chat)))
    return "" if known is None else known[0]


def meant_for(principal: str, asker: str, home: Address, address: Address) -> str:
    """Return whom something is for that a session at `home` says at an address, empty where the address tells no more.

    A session's own private chat is its principal's, whoever has that account by now.
    """
    if address.recipient:
        return asker
    own = address.place == home.place and home.channel != SESSION and not is_chat(principal)
    return principal if own else ""


def is_anothers(document: Document, address: Address, meant: str, *, ours: bool = False) -> bool:
    """Say whether what is meant for a principal would be told to somebody else there, or for nobody known any more.

    What is `ours`, told by the program itself, may tell somebody at his own account that he is not known any more.
    """
    now = owner(document, address)
    return bool(meant) and (now != meant if now else not ours and meant not in document.principals)


def recipient(account: str) -> str:
    """Return how an account is named in an address that it alone gets to see."""
    return account.rpartition(":")[2]
