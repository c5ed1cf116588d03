"""The user whose rights the page about several machines lists may do all that Lockgate asks of a store."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import pytest

from bot.core.errors import StoreError
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import Script
from bot.store.servers.durability import durability
from tests.conventions.documents import ROOT
from tests.fleets import Kind, Served
from tests.store.test_lost_reply import CASES, Prepare
from tests.store.world import KEY, command, fresh, item

pytestmark = pytest.mark.anyio

_PAGE: Final = (ROOT / "docs/several-machines.md").read_text("utf-8")
_PASSWORD: Final = "right"  # noqa: S105 - of a server of this test


def _rights() -> list[str]:
    """Return the rights as the page lists them."""
    found = re.search(r"^user lockgate on >PASSWORD (.*)$", _PAGE, re.MULTILINE)
    assert found is not None
    return found[1].split()


def _cluster_right() -> str:
    found = re.search(r"On a Cluster it needs `(.*?)` too", _PAGE)
    assert found is not None
    return found[1]


def _named(url: str, user: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}:{_PASSWORD}@{rest}"


@pytest.fixture
async def limited(store: RedisStore, server: Served, kind: Kind) -> AsyncIterator[RedisStore]:
    """A process' store, as the user of the page."""
    rights = [*_rights(), *([_cluster_right()] if kind is Kind.CLUSTER else [])]
    await command(store, "ACL", "SETUSER", "lockgate", "reset", "on", f">{_PASSWORD}", *rights)
    opened = await open_store(audit_key=KEY, url=_named(server.url, "lockgate"))
    yield opened
    await opened.close()
    await command(store, "ACL", "DELUSER", "lockgate")


@pytest.mark.several_servers(Kind.ONE, Kind.CLUSTER)
@pytest.mark.parametrize("script, prepare", CASES)
async def test_it_may_run_every_script(
    store: RedisStore, limited: RedisStore, script: Script, prepare: Prepare
) -> None:
    del script
    await (await prepare(store))(limited)


@pytest.mark.several_servers(Kind.ONE, Kind.CLUSTER)
async def test_it_may_do_what_no_script_does(limited: RedisStore) -> None:
    sid = fresh()
    async with limited.changes.watching(sid) as feed:
        await limited.sessions.accept(item(sid))
        async with asyncio.timeout(60):
            await feed.next()
    assert await limited.complaints() == []
    assert await durability(limited._shared.connection) == ([], "")  # pyright: ignore[reportPrivateUsage]
    await limited.meet()
    await limited.wake.sweep()
    assert await limited.wake.others()
    assert not await limited.losses.took_over()
    await limited.losses.look()
    assert sid in [state.sid async for state in limited.sessions.states()]
    assert sid not in [chain async for chain, _ in limited.audit.heads()]
    assert await limited.index.recent(limit=1)
    await limited.vault([KEY]).put("name", b"value", 60)
    await limited.lifecycle.delete(sid, ())


async def _works(admin: RedisStore, url: str) -> bool:
    """Say whether a user can do what needs a right of its own."""
    try:
        async with asyncio.timeout(3):
            store = await open_store(audit_key=KEY, url=url)
    except (StoreError, TimeoutError):
        return False
    try:
        async with asyncio.timeout(3):
            sid = fresh()
            async with store.changes.watching(sid) as feed:
                await command(admin, "SCRIPT", "FLUSH")
                await store.sessions.accept(item(sid))
                await feed.next()
            await command(admin, "SCRIPT", "FLUSH")
            await store.wake.sweep()
            return await store.complaints() == []
    except (StoreError, TimeoutError):
        return False
    finally:
        await store.close()


@pytest.mark.parametrize("right", [right for right in _rights() if right[0] in "+&~"])
async def test_each_right_that_the_page_lists_is_needed(store: RedisStore, server: Served, right: str) -> None:
    left = [one for one in _rights() if one != right]
    await command(store, "ACL", "SETUSER", "less", "reset", "on", f">{_PASSWORD}", *left)
    try:
        assert not await _works(store, _named(server.url, "less"))
    finally:
        await command(store, "ACL", "DELUSER", "less")
