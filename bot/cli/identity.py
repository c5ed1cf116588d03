"""The user of a command: the system user who owns the data directory is the owner, any other user a stranger.

Only the owner looks into store and audit from the command line.
"""

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from bot.access.authorize import Caller, Ingress, Refusal, authorize
from bot.app.first_run import make_bare
from bot.app.stores import begun_store
from bot.config.model import Config
from bot.core.errors import OperatorError
from channels.console import NAME, OWNER, Console
from channels.messages import Address
from policy.request import Role

if TYPE_CHECKING:
    from bot.app.app import App


def person(data_dir: Path) -> str:
    """Return the chat, and the account's id, of the user who runs this process."""
    if not hasattr(os, "getuid") or data_dir.stat().st_uid == os.getuid():
        return OWNER
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    # A user whose name happens to be the owner's chat is not the owner.
    return f"user-{name}"


def account(chat: str) -> str:
    """Return the account of a chat of the console."""
    return f"{NAME}:{chat}"


def address(chat: str) -> Address:
    """Return the address of a chat of the console."""
    return Address(NAME, chat)


@asynccontextmanager
async def as_owner(
    config: Config, *, looking: bool = False, with_any_keys: bool = False
) -> AsyncGenerator[tuple["App", Caller]]:
    """Open the application for an operator's command; nothing of it runs turns.

    `looking` and `with_any_keys` are as in `open_app`.

    Raises OperatorError: the user who runs this is not the owner, or the store cannot be used.
    """
    await asyncio.to_thread(make_bare, config.data_dir)
    who = account(await asyncio.to_thread(person, config.data_dir))
    caller = authorize(config.policy, who, Ingress.COMMAND, Role.OWNER)
    if isinstance(caller, Refusal):
        raise OperatorError(
            f"{who} is not the owner here, {caller.reason}",
            next_step="run this as the user who owns the data directory",
        )
    async with begun_store(config):
        from bot.app.opening import open_app

        # Decisions ask the console who reads there; nothing is said, as nothing serves the outbox.
        async with open_app(config, [Console(StringIO())], looking=looking, with_any_keys=with_any_keys) as app:
            yield app, caller
