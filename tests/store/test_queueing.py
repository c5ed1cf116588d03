"""The scripts `queue_mode` and `withdraw`, and what `accept`, `claim` and `write` make of a session's mode."""

from dataclasses import replace

import pytest

from bot.core.errors import NotFoundError, UnsettledError, WithdrawnError
from bot.sessions.approvals import ApprovalState
from bot.sessions.inbox import ItemStatus, NewItem, QueueMode
from bot.sessions.models import Claim, Status, Turn, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from tests.fleets import Served
from tests.store.world import KEY, claimed, dump, ending, event, fresh, item, opening, row, started, suspended

pytestmark = pytest.mark.anyio

LONG = 60_000


def other(sid: str, dedupe: str) -> NewItem:
    """Return an input of somebody else's."""
    return replace(item(sid, dedupe), sender="bob")


async def busy(store: RedisStore, *sent: str) -> Claim:
    """Leave a session whose turn has ended and to which some inputs came meanwhile: each is ann's, or `bob`."""
    claim, written = await started(store)
    for n, who in enumerate(sent, start=2):
        await store.sessions.accept(other(claim.sid, f"d{n}") if who == "bob" else item(claim.sid, f"d{n}"))
    await store.sessions.commit(claim, ending(written.seq, 1))
    return claim


async def test_what_came_while_a_turn_ran_is_left_for_a_moment(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(debounce_ms=LONG))
    sid = (await busy(store, "ann")).sid
    with pytest.raises(UnsettledError) as early:
        await store.sessions.claim(sid, fresh())
    assert 50 < early.value.seconds <= LONG / 1000
    assert sid in await store.wake.sweep()
    # Whoever only writes something down need not wait.
    await store.sessions.release(await claimed(store, sid, idle=True))
    await store.close()
    at_once = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(debounce_ms=0))
    assert len((await claimed(at_once, sid)).items) == 1
    await at_once.close()


async def test_what_comes_behind_it_is_left_too_and_what_comes_to_an_idle_session_is_not(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(debounce_ms=LONG))
    sid = (await busy(store, "ann")).sid
    await store.sessions.accept(item(sid, "d3"))
    with pytest.raises(UnsettledError):
        await store.sessions.claim(sid, fresh())
    await store.sessions.stop(sid, actor="ann")
    await store.sessions.accept(item(sid, "d4"))
    claim = await claimed(store, sid)
    written = await store.sessions.record(claim, opening(claim, 4, "d4"))
    await store.sessions.commit(claim, ending(written.seq, 4))
    await store.sessions.accept(item(sid, "d5"))
    await claimed(store, sid)
    await store.close()


@pytest.mark.parametrize("sent", [("ann", "bob"), ("bob", "ann", "ann"), ("ann",) * 3])
async def test_what_nothing_can_join_is_not_left(server: Served, sent: tuple[str, ...]) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(debounce_ms=LONG, claim_items=3))
    sid = (await busy(store, *sent)).sid
    assert len((await claimed(store, sid)).items) == len(sent)
    await store.close()


@pytest.mark.parametrize("mode", [mode for mode in QueueMode if mode is not QueueMode.COLLECT])
async def test_only_what_is_collected_is_left(server: Served, mode: QueueMode) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(debounce_ms=LONG))
    sid = (await busy(store, "ann")).sid
    await store.queue.set_mode(sid, mode, ())
    assert (await claimed(store, sid)).state.mode is mode
    await store.close()


async def test_a_mode_stays_over_a_reset_and_is_noted(store: RedisStore) -> None:
    with pytest.raises(NotFoundError):
        await store.queue.set_mode(fresh(), QueueMode.STEER, (row(),))
    claim, _ = await started(store)
    await store.queue.set_mode(claim.sid, QueueMode.STEER, (row("steer"),))
    state = await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert state.mode is QueueMode.STEER
    assert [record.body for record in await store.audit.records(claim.sid)] == [{"what": "steer"}]
    await store.queue.set_mode(claim.sid, QueueMode.COLLECT, ())
    again = await store.sessions.state(claim.sid)
    assert again is not None
    assert again.mode is QueueMode.COLLECT


async def test_a_turn_learns_with_each_write_what_waits_and_what_becomes_of_it(store: RedisStore) -> None:
    claim, written = await started(store)
    assert (written.waiting, written.mode) == (0, QueueMode.COLLECT)
    await store.sessions.accept(item(claim.sid, "d2"))
    await store.queue.set_mode(claim.sid, QueueMode.STEER, ())
    written = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),)))
    assert (written.waiting, written.mode) == (1, QueueMode.STEER)


async def test_in_this_mode_the_next_input_of_the_same_sender_stops_the_turn(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.queue.set_mode(claim.sid, QueueMode.INTERRUPT, ())
    assert (await store.sessions.accept(other(claim.sid, "d2"))).stopping == ""
    assert not await store.sessions.renew(claim)
    assert (await store.sessions.accept(item(claim.sid, "d3"))).stopping == "t"
    assert await store.sessions.renew(claim)
    assert (await store.sessions.record(claim, Write(fresh(), written.seq))).stop
    # Nothing that waits is cancelled by that, and the turn that it stopped is named as long as it is open.
    assert [one.position for one in await store.sessions.waiting(claim.sid)] == [2, 3]
    assert (await store.sessions.accept(item(claim.sid, "d3"))).stopping == "t"
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert (await store.sessions.accept(item(claim.sid, "d3"))).stopping == ""


async def test_a_question_to_people_is_not_asked_any_more_then(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    assert [one.state for one in await store.approvals.of(claim.sid)] == [ApprovalState.PENDING]
    await store.queue.set_mode(claim.sid, QueueMode.INTERRUPT, ())
    assert (await store.sessions.accept(item(claim.sid, "d3"))).stopping == "t"
    (gone,) = await store.approvals.of(claim.sid)
    assert (gone.id, gone.state, gone.resolved_by) == (asked.id, ApprovalState.SUPERSEDED, "ann")
    assert (await claimed(store, claim.sid)).state.stopping


async def test_one_input_is_withdrawn(store: RedisStore) -> None:
    sid = fresh()
    for n in (1, 2):
        await store.sessions.accept(item(sid, f"d{n}"))
    first, second = await store.sessions.waiting(sid)
    await store.queue.withdraw(sid, first, (row("gone"),))
    with pytest.raises(NotFoundError):
        await store.queue.withdraw(sid, first, (row(),))
    assert (await store.sessions.accept(item(sid, "d1"))).status is ItemStatus.CANCELLED
    assert [record.body for record in await store.audit.records(sid)] == [{"what": "gone"}]
    claim = await claimed(store, sid)
    assert claim.items == (second,)
    await store.queue.withdraw(sid, second, ())
    before = await dump(store, sid)
    with pytest.raises(WithdrawnError):
        await store.sessions.record(claim, opening(claim, 2, "d2"))
    assert await dump(store, sid) == before
    await store.sessions.release(claim)
    state = await store.sessions.state(sid)
    assert state is not None
    assert (state.status, state.waiting_items) == (Status.IDLE, 0)
    assert await store.sessions.claim(sid, fresh()) is None
    with pytest.raises(NotFoundError):
        await store.queue.withdraw(fresh(), second, ())


async def test_what_a_turn_began_with_is_neither_withdrawn_nor_lost_before_it_is_let_in(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.queue.set_mode(sid, QueueMode.INTERRUPT, ())
    claim = await claimed(store, sid)
    begun = replace(opening(claim), take=None, events=())
    await store.sessions.record(claim, begun)
    (waiting,) = await store.sessions.waiting(sid)
    with pytest.raises(NotFoundError):
        await store.queue.withdraw(sid, waiting, ())
    assert (await store.sessions.accept(item(sid, "d2"))).stopping == ""
    assert not await store.sessions.renew(claim)


async def test_inputs_of_one_turn_end_together(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    turn = Turn("t", 1, "d1", "ann", claim.now, joined=(2,))
    taken = Write(fresh(), written.seq, events=(event(),), take=2, turn=turn)
    written = await store.sessions.record(claim, taken)
    assert await store.sessions.record(claim, taken) == written
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert (state.turn, state.waiting_items) == (turn, 0)
    await store.sessions.commit(claim, ending(written.seq, 1, 2))
    for dedupe in ("d1", "d2"):
        assert (await store.sessions.accept(item(claim.sid, dedupe))).status is ItemStatus.CONSUMED
