"""The store of an application, as its configuration has it."""

from typing import TYPE_CHECKING

from bot.app.keys import Secrets
from bot.config.model import Config
from bot.core.clock import Clock
from bot.store.opening import open_store
from bot.store.options import StoreOptions

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
