"""The store of an application, as its configuration has it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from bot.app.keys import Secrets
from bot.config.model import Config
from bot.core.clock import Clock
from bot.core.errors import OperatorError, StoreError
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.servers.embedded_server import Supervisor

if TYPE_CHECKING:
    from bot.store.redis_store import RedisStore


async def opened_store(config: Config, secrets: Secrets, clock: Clock, *, restoring: bool = False) -> "RedisStore":
    """Start or reach the store; to put a backup back with `restoring`. Raises OperatorError: it cannot be used."""
    lease = config.store.lease_seconds * 1000
    options = StoreOptions(
        lease_ms=lease,
        send_lease_ms=lease,
        inbox_limit=config.limits.inbox_items,
        notes_limit=config.runs.notes,
    )
    return await open_store(
        audit_key=secrets.audit,
        data=config.data_dir,
        url=config.store.url or "",
        options=options,
        clock=clock,
        restoring=restoring,
    )


@asynccontextmanager
async def begun_store(config: Config) -> AsyncGenerator[None]:
    """Let the embedded store begin to load while the block imports the rest of the program, and leave it in the end.

    With many sessions both take seconds. Nothing is done for a store elsewhere. If the embedded one cannot be used, the
    block reports that as it opens the store itself. The data directory must exist.
    """
    if config.store.url:
        yield
        return
    supervisor = Supervisor(config.data_dir)
    with suppress(OperatorError, StoreError):
        await asyncio.to_thread(supervisor.begin)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await supervisor.detach()
