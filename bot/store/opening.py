"""Opening a store: start or attach to the embedded server, or connect to one at an address, and check it.

redis is imported inside, when a store is opened, and not before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bot.core.clock import Clock, SystemClock
from bot.core.errors import StoreRefusedError
from bot.core.faults import place
from bot.core.ids import Ids
from bot.core.keys import KeySeries
from bot.store.options import StoreOptions
from bot.store.schema import PROCESS
from bot.store.scripts.loader import Script, ScriptText, load_scripts
from bot.store.servers.address import Kind, StoreAddress, read_address
from bot.store.servers.embedded_server import Supervisor

if TYPE_CHECKING:
    from bot.store.redis_store import RedisStore
    from bot.store.servers.connection import StoreServers


async def open_store(  # noqa: PLR0913 - what a store is opened with
    *,
    audit_key: bytes | KeySeries,
    data: Path | None = None,
    url: str = "",
    options: StoreOptions | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    restoring: bool = False,
) -> "RedisStore":
    """Open the store at `url`, or the embedded one of the `data` folder when there is no `url`.

    Close the store with `close()`. `audit_key` chains the audit records, `options` has times and limits. A store that a
    backup is being put back into is opened only to go on with that: `restoring`.

    Raises:
        StoreGoneError: The store does not answer.
        StoreRefusedError: It answers and cannot be used.
        SchemaError: A program of another version wrote it.
        OperatorError: There is no embedded server for this platform, or its files are unusable.
    """
    options, clock = options or StoreOptions(), clock or SystemClock()
    supervisor: Supervisor | None = None
    if not url:
        if data is None:
            raise StoreRefusedError("there is neither a data folder nor a store's address", next_step="set `store.url`")
        supervisor = Supervisor(data, clock=clock)
    # Reading files and importing would block the loop; the embedded server starts meanwhile.
    try:
        async with asyncio.TaskGroup() as together:
            loaded = together.create_task(asyncio.to_thread(_load))
            if supervisor:
                together.create_task(supervisor.attach())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    scripts = loaded.result()
    from bot.store.redis_store import RedisStore
    from bot.store.servers.connection import Connection

    ids = ids or Ids()
    process = f"{PROCESS}{ids.owner()}"
    address = read_address(supervisor.url if supervisor else url)
    servers = _servers(address, options, process, revive=supervisor.attach if supervisor else None)
    shown = "the embedded store" if supervisor else place(url) or "a socket"
    connection = Connection(servers, scripts, name=process, address=shown)
    store = RedisStore(connection, options=options, audit_key=audit_key, clock=clock, ids=ids, server=supervisor)
    await _checked(store, restoring=restoring)
    return store


def _servers(
    address: StoreAddress, options: StoreOptions, name: str, *, revive: Callable[[], Awaitable[None]] | None
) -> "StoreServers":
    """Return the servers of an address; nothing is connected yet.

    The code for Sentinels and Clusters is loaded only for these. Raises StoreError: an option of the address is
    invalid.
    """
    from bot.store.servers.connection import RetryLimit
    from bot.store.servers.server import Server, SingleServer, connecting, single_pool

    # After a failed try another server may take over soon, so no try may take all the time.
    limit = RetryLimit(options.timeout / 4, options.timeout)
    within = options.timeout if address.kind is Kind.SERVER else limit.each
    connected = connecting(address, timeout=within, name=name)
    if address.kind is Kind.SENTINEL:
        from bot.store.servers.sentinel import SentinelServers

        return SentinelServers(address, connected, limit)
    if address.kind is Kind.CLUSTER:
        from bot.store.servers.cluster import Cluster

        return Cluster(address.hosts, connected, limit)
    return SingleServer(Server(single_pool(connected)), timeout=options.timeout, revive=revive)


async def _checked(store: "RedisStore", *, restoring: bool) -> None:
    try:
        if store.server is None:
            await store.check()
        if not restoring:
            await store.meet()
    except BaseException:
        await store.close()
        raise


def _load() -> Mapping[Script, ScriptText]:
    """Load redis and the scripts."""
    import_module("bot.store.redis_store")
    return load_scripts()
