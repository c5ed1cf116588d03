"""A right is one process's at a time, comes back when that is gone, and is not held by whoever only thinks so."""

import anyio
import pytest

from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import right_key
from tests.fleets import Served
from tests.store.world import KEY, command, fresh

pytestmark = pytest.mark.anyio

SHORT = StoreOptions(right_ms=4_000)
"""Short, and yet kept when a machine stalls for two seconds."""


async def test_one_process_has_it_at_a_time(server: Served) -> None:
    name, order = fresh(), list[str]()
    store, other = [await open_store(audit_key=KEY, url=server.url, options=SHORT) for _ in range(2)]

    async def second() -> None:
        async with other.rights.hold(name):
            order.append("second")

    async with anyio.create_task_group() as tasks, store.rights.hold(name) as held:
        tasks.start_soon(second)
        await anyio.sleep(0.5)
        assert held()
        order.append("first")
    await other.close()
    assert order == ["first", "second"]
    assert await command(store, "GET", right_key(name)) is None
    await store.close()


async def test_it_is_renewed_while_it_is_held(server: Served) -> None:
    store, name = await open_store(audit_key=KEY, url=server.url, options=SHORT), fresh()
    async with store.rights.hold(name) as held:
        await anyio.sleep(5)
        assert held()
        assert await command(store, "GET", right_key(name)) is not None
    await store.close()


async def test_who_lost_it_knows(server: Served) -> None:
    store, name = await open_store(audit_key=KEY, url=server.url, options=SHORT), fresh()
    async with store.rights.hold(name) as held:
        await command(store, "SET", right_key(name), "somebody else")
        with anyio.fail_after(60):
            while True:
                await anyio.sleep(0.05)
                if not held():
                    break
    assert await command(store, "GET", right_key(name)) == b"somebody else"
    await store.close()


async def test_it_comes_back_also_where_the_stores_clock_was_set_back(server: Served) -> None:
    store, name = await open_store(audit_key=KEY, url=server.url, options=SHORT), fresh()
    await command(store, "SET", right_key(name), "a process that was killed", "PX", 3_600_000)
    with anyio.fail_after(60):
        async with store.rights.hold(name) as held:
            assert held()
    await store.close()


async def test_it_comes_back_when_its_holder_is_gone(store: RedisStore, server: Served) -> None:
    name = fresh()
    await command(store, "SET", right_key(name), "a process that was killed", "PX", 300)
    other = await open_store(audit_key=KEY, url=server.url, options=SHORT)
    with anyio.fail_after(60):
        async with other.rights.hold(name) as held:
            assert held()
    await other.close()
