"""Another server takes over while sessions are worked: what was acknowledged stays, and nothing happens twice.

A failover here loses nothing: it is coordinated, or the primary is killed when its replica has all that it had. In the
last test the replica lags, and what was lost is found.
"""

import asyncio
from contextlib import ExitStack
from functools import partial
from itertools import count

import anyio
import pytest

from bot.core.errors import StoreError
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.events import EventType
from bot.sessions.models import Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, session_keys
from tests.bot.kit import eventually
from tests.fleets import SERVICE, Fleet, Kind, SentinelFleet, Served, alone, ask, wait_until
from tests.store.world import (
    KEY,
    SECRET,
    answer,
    claimed,
    command,
    drop_state,
    end_lease,
    ending,
    event,
    fresh,
    item,
    opening,
    row,
    started,
    statuses,
)

pytestmark = [pytest.mark.anyio, pytest.mark.several_servers]

_SESSIONS = 8
_TURNS = 3


async def _turns(store: RedisStore, sid: str, enough: asyncio.Event) -> int:
    """Work a session, one message after another, each of which a platform tells twice; return how many."""
    for number in count(1):
        new = item(sid, f"d{number}")
        accepted = await store.sessions.accept(new)
        assert (accepted.position, accepted.duplicate) == (number, False)
        assert (await store.sessions.accept(new)).duplicate
        claim = await claimed(store, sid)
        written = await store.sessions.record(claim, opening(claim, number, f"d{number}"))
        await store.sessions.commit(claim, ending(written.seq, number, deliver=(answer(f"k{number}"),)))
        await store.audit.append((row(f"{sid} {number}"),))
        if enough.is_set() and number >= _TURNS:
            return number
    raise AssertionError


async def _worked(store: RedisStore, enough: asyncio.Event) -> dict[str, int]:
    """Work some sessions at the same time; return how many turns each had."""
    turns = dict[str, int]()

    async def work(sid: str) -> None:
        turns[sid] = await _turns(store, sid, enough)

    async with anyio.create_task_group() as tasks:
        for _ in range(_SESSIONS):
            tasks.start_soon(work, fresh())
    return turns


async def _whole(store: RedisStore, turns: dict[str, int], after: int) -> None:
    """See that each session has every message once and in order, each answered once, and the audit chain every row."""
    for sid, number in turns.items():
        log = await store.sessions.events(sid, limit=10_000)
        assert [one.seq for one in log] == list(range(1, len(log) + 1))
        said = [one.type for one in log if one.type in {EventType.USER_MESSAGE, EventType.AGENT_MESSAGE}]
        assert said == [EventType.USER_MESSAGE, EventType.AGENT_MESSAGE] * number
        ended = await statuses(store, sid)
        assert ended == [ItemStatus.CONSUMED] * number
        assert len(await store.outbox.deliveries(sid)) == number
    told = [str(record.body["what"]) for record in await store.audit.records(AUDIT, after=after, limit=100_000)]
    assert sorted(told) == sorted(f"{sid} {n}" for sid, number in turns.items() for n in range(1, number + 1))


async def test_turns_go_on_while_another_server_takes_over(store: RedisStore, fleet: Fleet) -> None:
    after, _ = await store.audit.head(AUDIT)
    enough = asyncio.Event()

    async def hand_over() -> None:
        before = await asyncio.to_thread(lambda: set(fleet.primaries))
        await asyncio.to_thread(fleet.hand_over)
        await asyncio.to_thread(wait_until, lambda: not before & set(fleet.primaries))
        enough.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hand_over())
        worked = tasks.create_task(_worked(store, enough))
    await _whole(store, worked.result(), after)


@pytest.mark.parametrize("hang", [False, True], ids=["killed", "hangs"])
async def test_turns_go_on_after_a_primary_is_gone(store: RedisStore, fleet: Fleet, *, hang: bool) -> None:
    after, _ = await store.audit.head(AUDIT)
    enough = asyncio.Event()
    enough.set()
    before = await _worked(store, enough)
    # Nobody writes at that moment: its replica would not know of it.
    await asyncio.to_thread(partial(fleet.kill, hang=hang))
    await _whole(store, before | await _worked(store, enough), after)


async def test_who_waits_for_work_is_woken_after_a_failover(store: RedisStore, fleet: Fleet) -> None:
    sids = list[str]()

    async def wait() -> None:
        while sid not in sids:
            sids.extend(await store.wake.ready(wait=2))

    sid = fresh()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await asyncio.sleep(0.05)
        await asyncio.to_thread(fleet.kill)
        await store.sessions.accept(item(sid))


async def test_a_walk_goes_on_after_a_failover(fleet: Fleet) -> None:
    store = await open_store(audit_key=KEY, url=fleet.url, options=StoreOptions(sweep_keys=1))
    sids = {fresh() for _ in range(1_500)}
    async with anyio.create_task_group() as tasks:
        for sid in sids:
            tasks.start_soon(store.sessions.accept, item(sid))
    await command(store, "DEL", "lg:open", "lg:ready")
    found = set(await store.wake.sweep())
    await asyncio.to_thread(fleet.kill)
    async with asyncio.timeout(60):
        while not sids <= found:
            found |= set(await store.wake.sweep())
    await store.close()


async def test_a_store_that_stays_away_is_given_up(store: RedisStore, fleet: Fleet) -> None:
    """The tries end, and what is told is the same as of one server."""
    hurried = await open_store(audit_key=KEY, url=fleet.url, options=StoreOptions(timeout=0.3))
    await asyncio.to_thread(fleet.kill)
    # The part that was killed has the hints, which nobody else has before a failover.
    with pytest.raises(StoreError, match=r"does not answer|no Sentinel knows|Cluster is down"):
        await hurried.wake.ready(wait=0.01)
    await store.sessions.accept(item(fresh()))
    await hurried.close()


async def test_what_an_old_script_cache_lacks_is_loaded(own: RedisStore) -> None:
    """A replica that was promoted knows no scripts."""
    sids = {fresh() for _ in range(20)}
    for sid in sids:
        await own.sessions.accept(item(sid))
    await command(own, "SCRIPT", "FLUSH")
    assert set(await own.wake.sweep()) == sids
    await command(own, "SCRIPT", "FLUSH")
    await own.audit.append((AuditRow("decision", "ann", {}),))
    assert await own.sessions.claim(next(iter(sids)), fresh()) is not None


@pytest.mark.several_servers(Kind.SENTINEL)
async def test_a_primary_that_was_replaced_and_goes_on_is_left(fleet: Fleet) -> None:
    """What it takes then is lost: Sentinels do not reach it, or not yet."""
    assert isinstance(fleet, SentinelFleet)

    def monitor(port: int) -> None:
        for one in fleet.sentinels:
            ask(one.port, "SENTINEL", "REMOVE", "other")
            assert ask(one.port, "SENTINEL", "MONITOR", "other", "127.0.0.1", str(port), "2") == b"+OK\r\n"

    monitor(fleet.primaries[0])
    store = await open_store(audit_key=KEY, url=fleet.url.replace(f"/{SERVICE}", "/other"))
    sid = fresh()
    await store.sessions.accept(item(sid))
    assert not await store.losses.took_over()
    with ExitStack() as until:
        another = await asyncio.to_thread(until.enter_context, alone("no"))
        monitor(another.primaries[0])
        assert await store.losses.took_over()
        assert await store.sessions.state(sid) is None
        await store.close()
        for one in fleet.sentinels:
            assert ask(one.port, "SENTINEL", "REMOVE", "other") == b"+OK\r\n"
        await asyncio.to_thread(until.close)


async def test_the_store_is_found_by_any_of_its_hosts(server: Served) -> None:
    """The first of an address may be away."""
    scheme, _, rest = server.url.partition("://")
    hosts, slash, service = rest.partition("/")
    last = hosts.split(",")[-1]
    store = await open_store(audit_key=KEY, url=f"{scheme}://127.0.0.1:1,{last}{slash}{service}")
    await store.sessions.accept(item(fresh()))
    assert await store.complaints() == []
    await store.close()


async def test_what_a_failover_lost_is_found(store: RedisStore, fleet: Fleet) -> None:
    """The replica lags when its primary is killed, so the newest acknowledged writes are gone."""
    claim, written = await started(store)
    sid = claim.sid
    assert not await store.losses.took_over()
    await asyncio.to_thread(fleet.hold_back, session_keys(sid).state)
    raised = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET), event(SECRET))))
    await store.sessions.accept(item(sid, "d2"))
    await asyncio.to_thread(fleet.lose)
    await eventually(lambda: _took_over(store))
    await store.losses.look()
    (loss,) = store.losses.taken()
    assert (loss.sid, loss.kept, loss.lost, loss.label) == (sid, written.seq, raised.seq, SECRET)
    log = await store.sessions.events(sid)
    assert [one.seq for one in log] == list(range(1, raised.seq + 2))
    again = {one.dedupe: await store.sessions.accept(one) for one, _ in store.losses.recent() if one.sid == sid}
    assert {dedupe: one.duplicate for dedupe, one in again.items()} == {"d1": True, "d2": False}


async def test_a_text_that_may_have_been_sent_by_the_lost_server_is_marked(
    store: RedisStore, other: RedisStore, fleet: Fleet
) -> None:
    """The server that takes over lacks the receipt, and that the text was taken at all: for it nobody sent it."""
    sid = (await started(store))[0].sid
    await store.outbox.put(sid, answer("k1"))
    assert not await other.losses.took_over()
    await asyncio.to_thread(fleet.hold_back, session_keys(sid).state)
    (sent,) = await store.outbox.take(sid, "me", ("console",))
    assert not sent.doubtful
    await store.outbox.settle(sent, "me", DeliveryState.SENT, receipt="r1")
    await asyncio.to_thread(fleet.lose)
    await eventually(lambda: _took_over(other), 20)
    await other.outbox.put(sid, answer("k2"))
    taken = await other.outbox.take(sid, "you", ("console",))
    assert [(one.key, one.doubtful) for one in taken] == [("k1", True), ("k2", False)]


async def test_a_turn_that_a_failover_interrupted_did_not_end_its_worker(
    store: RedisStore, other: RedisStore, fleet: Fleet
) -> None:
    """A turn that ends its workers is given up after some attempts, one that outlives some servers is not."""
    claim, _ = await started(store)
    assert not await other.losses.took_over()
    await asyncio.to_thread(fleet.kill)
    await eventually(lambda: _took_over(other), 20)
    await end_lease(other, claim.sid)
    again = await claimed(other, claim.sid)
    assert again.state.turn is not None
    assert (again.state.turn.attempt, again.state.turn.handed) == (2, 1)
    # The sweep saw that the connections of its process were gone.
    await drop_state(other, claim.sid, "owner")
    third = await claimed(other, claim.sid)
    assert third.state.turn is not None
    assert (third.state.turn.attempt, third.state.turn.handed) == (3, 1)


async def _took_over(store: RedisStore) -> bool:
    """Say whether another server took over; while none serves, none did."""
    try:
        return await store.losses.took_over()
    except StoreError:
        return False
