"""The operator's reads: only the owner looks into store and audit from the command line."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import StringIO
from typing import TYPE_CHECKING

from bot.access.authorize import Caller, Ingress, Refusal, authorize
from bot.app.first_run import seed
from bot.cli import person
from bot.config.model import Config
from bot.core.errors import OperatorError
from channels.console import Console
from policy.request import Role

if TYPE_CHECKING:
    from bot.app.app import App


@asynccontextmanager
async def as_owner(config: Config) -> AsyncGenerator[tuple["App", Caller]]:
    """Open the application for an operator's command; nothing of it runs turns.

    Raises OperatorError: whoever runs this is not the owner, or the store cannot be used.
    """
    await asyncio.to_thread(seed, config.data_dir)
    who = person.account(await asyncio.to_thread(person.person, config.data_dir))
    caller = authorize(config.policy, who, Ingress.COMMAND, Role.OWNER)
    if isinstance(caller, Refusal):
        raise OperatorError(
            f"{who} is not the owner here, {caller.reason}",
            next_step="run this as the user who owns the data directory",
        )
    from bot.app.app import open_app

    # Decisions ask the console who reads there; nothing is said, as nothing serves the outbox.
    async with open_app(config, [Console(StringIO())]) as app:
        yield app, caller
