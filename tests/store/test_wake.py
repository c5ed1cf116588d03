"""Wake-ups: hints that may be lost, and the sweep that finds what they lost."""

import asyncio
import re

import pytest

from bot.core.errors import LeaseLostError
from bot.sessions.deliveries import DeliveryState, NewDelivery
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import OPEN, READY, right_key, sweep_key
from policy.labels import PUBLIC
from tests.fleets import Served
from tests.store.world import (
    KEY,
    answer,
    claimed,
    command,
    depart,
    end_lease,
    ending,
    fresh,
    item,
    keys,
    put_state,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def forget(store: RedisStore) -> None:
    """Lose all hints."""
    await command(store, "DEL", READY, OPEN)


async def test_an_input_wakes(own: RedisStore) -> None:
    sid = fresh()
    await own.sessions.accept(item(sid))
    await own.sessions.accept(item(sid, "d2"))
    assert await own.wake.ready(wait=1) == (sid,)
    assert await own.wake.ready(wait=0) == ()


async def test_waiting_ends(own: RedisStore) -> None:
    assert await own.wake.ready(wait=0.05) == ()


async def test_sweep_heals_a_lost_wake_up(own: RedisStore) -> None:
    sid = fresh()
    await own.sessions.accept(item(sid))
    await forget(own)
    assert await own.wake.sweep() == (sid,)
    assert await own.wake.ready(wait=1) == (sid,)


async def test_a_sweep_looks_at_each_session_once(own: RedisStore) -> None:
    """What its hints led it to, its walk over the store passes by: with hints it asks no more than without."""
    for _ in range(5):
        await own.sessions.accept(item(fresh()))
    # Now the server knows the script.
    await own.wake.sweep()
    with_hints = await _asked_by_a_sweep(own)
    await forget(own)
    assert with_hints == await _asked_by_a_sweep(own)


async def _asked_by_a_sweep(own: RedisStore) -> int:
    """Return how many scripts a sweep runs that finds five sessions."""
    await command(own, "CONFIG", "RESETSTAT")
    assert len(await own.wake.sweep()) == 5
    told: bytes = await command(own, "INFO", "commandstats")
    return sum(map(int, re.findall(rb"cmdstat_evalsha:calls=(\d+)", told)))


async def test_the_sweep_leaves_what_is_for_other_channels_to_who_serves_them(own: RedisStore) -> None:
    claim, written = await started(own)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(), answer("k2", address="pigeon::x:"))))
    (entry,) = await own.outbox.take(claim.sid, "me", ("console",))
    await own.outbox.settle(entry, "me", DeliveryState.SENT)
    asks = fresh()
    await own.sessions.accept(item(asks))
    assert set(await own.wake.sweep(("pigeon",))) == {claim.sid}
    assert set(await own.wake.sweep(("console", "session"))) == {asks}
    assert set(await own.wake.sweep()) == {claim.sid, asks}
    await forget(own)
    assert await own.wake.sweep(("raven",)) == ()
    assert await own.wake.ready(wait=0.05) == ()


async def test_the_sweep_finds_a_vanished_worker(own: RedisStore) -> None:
    claim, _ = await started(own)
    assert await own.wake.sweep() == ()
    await end_lease(own, claim.sid)
    assert await own.wake.sweep() == (claim.sid,)


async def test_what_a_process_that_is_gone_held_is_freed_at_the_second_sweep(server: Served) -> None:
    sid = fresh()
    gone = await open_store(audit_key=KEY, url=server.url)
    await gone.sessions.accept(item(sid))
    first = await claimed(gone, sid, owner=f"{gone.process}.a")
    own = await open_store(audit_key=KEY, url=server.url)
    assert sid not in await own.wake.sweep()
    assert sid not in await own.wake.sweep()
    await depart(gone, own)
    assert sid not in await own.wake.sweep()
    assert sid in await own.wake.sweep()
    assert (await claimed(own, sid)).fence == first.fence + 1
    with pytest.raises(LeaseLostError):
        await own.sessions.renew(first)
    await own.close()


async def test_two_processes_that_begin_at_once_take_nobodys_work(server: Served) -> None:
    """What one of them misses a moment after a restart of the store, the other misses in the same moment."""
    sid = fresh()
    away = await open_store(audit_key=KEY, url=server.url)
    await away.sessions.accept(item(sid))
    claim = await claimed(away, sid, owner=f"{away.process}.a")
    first = await open_store(audit_key=KEY, url=server.url)
    await depart(away, first)
    second = await open_store(audit_key=KEY, url=server.url)
    for beginner in (first, second):
        assert sid not in await beginner.wake.sweep(name="begins")
    assert not await away.sessions.renew(claim)
    await depart(away, first)
    assert sid in await first.wake.sweep(name="begins")
    for one in (away, first, second):
        await one.close()


async def test_processes_take_turns_to_sweep(store: RedisStore, other: RedisStore) -> None:
    name = fresh()
    assert await store.wake.sweep_turn(name, 3_600) == 0
    assert 3_500 < await store.wake.sweep_turn(name, 3_600) <= 3_600
    # One that begins does not wait, as there may be nobody else.
    assert await other.wake.sweep_turn(name, 3_600) == 0
    assert 3_500 < await other.wake.sweep_turn(name, 3_600) <= 3_600
    await command(store, "PEXPIRE", right_key(f"sweep/{name}"), 1)
    await asyncio.sleep(0.01)
    assert await store.wake.sweep_turn(name, 3_600) == 0


@pytest.mark.parametrize("left", [3_600_000, None], ids=["set back by an hour", "without an end"])
async def test_a_turn_to_sweep_that_no_clock_ends_is_taken(store: RedisStore, left: int | None) -> None:
    name = fresh()
    key = right_key(f"sweep/{name}")
    assert await store.wake.sweep_turn(name, 60) == 0
    await command(store, *(("PERSIST", key) if left is None else ("PEXPIRE", key, left)))
    assert await store.wake.sweep_turn(name, 60) == 0
    assert 0 < await store.wake.sweep_turn(name, 60) <= 60


@pytest.mark.parametrize("walk", [b"", b"\xff \xff", b"what", b"x  5", b"0  y", b"0  %d" % (1 << 64), b"0 gone 7"])
async def test_a_sweep_begins_anew_where_what_it_left_cannot_be_read(own: RedisStore, walk: bytes) -> None:
    sid = fresh()
    await own.sessions.accept(item(sid))
    await forget(own)
    await command(own, "HSET", sweep_key("name"), "walk", walk, "missing", b"\xff\xfe p-x")
    assert await own.wake.sweep(name="name") == (sid,)
    assert await own.wake.sweep(name="name") == (sid,)


async def test_what_a_process_that_is_gone_was_saying_comes_back_ambiguous(server: Served) -> None:
    gone = await open_store(audit_key=KEY, url=server.url)
    claim, written = await started(gone)
    await gone.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)), sender=gone.process)
    own = await open_store(audit_key=KEY, url=server.url)
    await depart(gone, own)
    assert await own.outbox.take(claim.sid, own.process, ("console",)) == ()
    assert claim.sid not in await own.wake.sweep()
    assert claim.sid in await own.wake.sweep()
    (back,) = await own.outbox.take(claim.sid, own.process, ("console",))
    assert back.state is DeliveryState.AMBIGUOUS
    await own.close()


async def test_the_sweep_leaves_alone_what_waits_for_people(own: RedisStore) -> None:
    claim, asked = await suspended(own)
    assert await own.wake.sweep() == ()
    await command(own, "HDEL", keys(claim.sid).approvals, asked.id)
    assert await own.wake.sweep() == (claim.sid,)


async def test_the_sweep_finds_what_waits_to_be_said(own: RedisStore) -> None:
    claim, written = await started(own)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    await forget(own)
    assert await own.wake.sweep() == (claim.sid,)
    (entry,) = await own.outbox.take(claim.sid, "me", ("console",))
    assert await own.wake.sweep() == ()
    await own.outbox.settle(entry, "me", DeliveryState.SENT)
    assert await own.wake.sweep() == ()
    assert await command(own, "SCARD", OPEN) == 0


async def test_the_sweep_finds_a_vanished_sender(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(send_lease_ms=0))
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)), sender="me")
    assert claim.sid in await store.wake.sweep()
    await store.outbox.take(claim.sid, "you", ("console",))
    assert claim.sid not in await store.wake.sweep()
    await store.close()


async def test_a_newer_session_does_not_hide_the_others(own: RedisStore) -> None:
    newer, sid = fresh(), fresh()
    for one in (newer, sid):
        await own.sessions.accept(item(one))
    await put_state(own, newer, version=3)
    assert await own.wake.sweep() == (sid,)


async def test_a_record_that_is_none_does_not_hide_the_others(own: RedisStore) -> None:
    """Also one that both the hints and the walk lead to."""
    broken, sid = fresh(), fresh()
    await command(own, "SET", keys(broken).state, "junk")
    await command(own, "SADD", OPEN, broken)
    await own.sessions.accept(item(sid))
    for _ in range(2):
        assert await own.wake.sweep() == (sid,)


async def test_an_archived_session_needs_nobody(own: RedisStore) -> None:
    sid = fresh()
    await own.sessions.accept(item(sid))
    await put_state(own, sid, status="archived")
    assert await own.wake.sweep() == ()
    # But for what is still to be said of it.
    await own.outbox.put(sid, NewDelivery("k", "console::ann:", "hi", PUBLIC))
    await forget(own)
    assert await own.wake.sweep() == (sid,)


@pytest.mark.parametrize("limit", [StoreOptions(sweep_keys=1), StoreOptions(walk_seconds=0)], ids=["keys", "time"])
async def test_a_stretch_at_a_time_covers_everything(server: Served, limit: StoreOptions) -> None:
    """Also where each sweep has time for one stretch only."""
    store = await open_store(audit_key=KEY, url=server.url, options=limit)
    sids = {fresh() for _ in range(100)}
    for sid in sids:
        await store.sessions.accept(item(sid))
    await forget(store)
    found: set[str] = set()
    for _ in range(20):
        found |= set(await store.wake.sweep())
    assert sids <= found
    for sid in sids:
        await store.sessions.stop(sid, actor="test")
    await store.close()


async def test_releasing_wakes_the_next_worker(own: RedisStore) -> None:
    claim, _ = await started(own)
    await forget(own)
    await own.sessions.release(claim)
    assert await own.wake.ready(wait=1) == (claim.sid,)
    again = await claimed(own, claim.sid)
    assert again.state.turn is not None


async def test_walking_all_sessions(own: RedisStore) -> None:
    sids = {fresh() for _ in range(30)} | {"odd } sid {\ud800"}
    for sid in sids:
        await own.sessions.accept(item(sid))
    assert {state.sid async for state in own.sessions.states()} == sids
