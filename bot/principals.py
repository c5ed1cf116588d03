"""Names of principals: a person's is configured, a shared chat's is made of where it is.

A shared chat is a principal of its own: it owns its sessions and their workspace, and nobody's personal objects are
reached from it. No configured name has a colon, so that neither is mistaken for the other.

An account is `channel:id`, or `channel:workspace:id` where ids of people collide between workspaces. Where its owner is
spoken to in private is made of the same parts, so that nobody has to look it up.
"""

from typing import Final

from channels.message import Address

_CHAT: Final = "chat:"


def of_chat(address: Address) -> str:
    """Return the principal that the shared chat of an address is, whatever the thread."""
    return f"{_CHAT}{address.place}"


def is_chat(principal: str) -> bool:
    """Say whether a principal is a shared chat."""
    return principal.startswith(_CHAT)


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


def recipient(account: str) -> str:
    """Return how an account is named in an address that it alone gets to see."""
    return account.rpartition(":")[2]
