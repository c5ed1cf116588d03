"""The change feed: a hint for each record that was written, and after a lost connection one for all."""

# pyright: reportPrivateUsage=false

import asyncio

import pytest

from bot.sessions.ports.changes import Changed, ChangeFeed
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import CHANGED
from tests.fleets import Fleet
from tests.store.world import KEY, command, ending, fresh, item, started

pytestmark = pytest.mark.anyio

EVERYTHING = Changed(frozenset(), everything=True)


async def told(feed: ChangeFeed, sid: str) -> None:
    """Wait until a feed tells of a session."""
    async with asyncio.timeout(60):
        while not (await feed.next()).touches(sid):
            pass


async def silent(feed: ChangeFeed) -> bool:
    """Say whether a feed tells nothing for a while."""
    try:
        async with asyncio.timeout(0.2):
            await feed.next()
    except TimeoutError:
        return True
    return False


async def test_each_write_is_told_to_all_who_wait_in_any_process(store: RedisStore, other: RedisStore) -> None:
    sid = fresh()
    async with store.changes.watching() as all_of_them, other.changes.watching(sid) as one:
        assert await all_of_them.next() == EVERYTHING
        assert await one.next() == EVERYTHING
        await store.sessions.accept(item(sid))
        assert await one.next() == Changed(frozenset({sid}))
        await told(all_of_them, sid)
        claim = await other.sessions.claim(sid, "w")
        assert claim is not None
        await told(one, sid)
        await told(all_of_them, sid)


async def test_a_feed_of_one_session_hears_of_no_other(store: RedisStore) -> None:
    sid = fresh()
    async with store.changes.watching(sid) as one:
        await one.next()
        await store.sessions.accept(item(fresh()))
        assert await silent(one)
        await store.sessions.accept(item(sid))
        assert await one.next() == Changed(frozenset({sid}))


async def test_what_is_told_can_be_read(store: RedisStore, other: RedisStore) -> None:
    claim, written = await started(store)
    async with other.changes.watching(claim.sid) as one:
        await one.next()
        await store.sessions.record(claim, ending(written.seq, 1))
        await told(one, claim.sid)
        state = await other.sessions.state(claim.sid)
        assert state is not None
        assert state.seq > written.seq


async def test_a_cancelled_wait_loses_nothing(store: RedisStore) -> None:
    sid = fresh()
    async with store.changes.watching(sid) as one:
        await one.next()
        waiting = asyncio.ensure_future(one.next())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await store.sessions.accept(item(sid))
        await asyncio.sleep(0.05)
        assert await one.next() == Changed(frozenset({sid}))


async def test_the_last_who_waits_closes_the_connection(store: RedisStore) -> None:
    async with store.changes.watching() as first:
        await first.next()
        async with store.changes.watching() as second:
            await second.next()
        assert store.changes._subscription is not None
    assert store.changes._subscription is None


async def test_after_a_lost_connection_everything_may_have_changed(store: RedisStore) -> None:
    sid = fresh()
    async with store.changes.watching(sid) as one:
        await one.next()
        await command(store, "CLIENT", "KILL", "TYPE", "pubsub")
        async with asyncio.timeout(60):
            assert await one.next() == EVERYTHING
        await store.sessions.accept(item(sid))
        await told(one, sid)


@pytest.mark.one_server("users are of one server")
async def test_a_user_who_may_not_publish_writes_all_the_same_and_doctor_tells(own: RedisStore) -> None:
    assert own.server is not None
    await command(own, "ACL", "SETUSER", "guest", "on", ">right", "~lg:*", "+@all", "resetchannels")
    store = await open_store(audit_key=KEY, url=f"unix://guest:right@{own.server.files.socket}")
    sid = fresh()
    assert (await store.sessions.accept(item(sid))).position == 1
    (complaint,) = await store.complaints()
    assert "may not use the channels `lg:*`" in str(complaint)
    await command(own, "ACL", "SETUSER", "guest", f"&{CHANGED}")
    assert await store.complaints() == []
    await store.close()


@pytest.mark.several_servers
@pytest.mark.parametrize("hang", [False, True])
async def test_a_feed_outlives_the_server_it_listens_to(store: RedisStore, fleet: Fleet, *, hang: bool) -> None:
    sid = fresh()
    async with store.changes.watching(sid) as one:
        await one.next()
        fleet.kill(hang=hang)
        await store.sessions.accept(item(sid))
        await told(one, sid)
