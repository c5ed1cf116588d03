"""Who sits at the console: the OS user who owns the data directory is the owner, anybody else a stranger."""

import getpass
import os
from pathlib import Path

from channels.console import NAME, OWNER
from channels.messages import Address


def person(data_dir: Path) -> str:
    """Return the chat, and the account's id, of whoever runs this process."""
    if not hasattr(os, "getuid") or data_dir.stat().st_uid == os.getuid():
        return OWNER
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    # Somebody whose user name happens to be the owner's chat is not the owner.
    return f"user-{name}"


def account(chat: str) -> str:
    """Return the account of a chat of the console."""
    return f"{NAME}:{chat}"


def address(chat: str) -> Address:
    """Return the address of a chat of the console."""
    return Address(NAME, chat)
