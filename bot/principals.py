"""Names of principals: a person's is configured, a shared chat's is made of where it is.

A shared chat is a principal of its own: it owns its sessions and their workspace, and nobody's personal objects are
reached from it. No configured name has a colon, so that neither is mistaken for the other.
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
