"""The scripts `stop` and `reset`: withdraw what waits, start anew."""

import pytest

from bot.core.errors import ArchivedError, NotFoundError, ResetError, SchemaError
from bot.sessions.approvals import ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus, Stopped
from bot.sessions.log.events import EventType
from bot.sessions.models import Status, Write
from bot.sessions.usage import Usage
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, parse
from tests.store.world import (
    SECRET,
    TOP,
    answer,
    claimed,
    command,
    dump,
    ending,
    event,
    fresh,
    item,
    put_state,
    row,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def test_stopping_cancels_what_waits(store: RedisStore) -> None:
    claim, _ = await started(store)
    for n in (2, 3):
        await store.sessions.accept(item(claim.sid, f"d{n}"))
    assert await store.sessions.stop(claim.sid, actor="ann") == Stopped(running=True, cancelled=2, unanswered=(2, 3))
    assert await store.sessions.stop(claim.sid, actor="ann") == Stopped(running=True, cancelled=0)
    assert (await store.sessions.accept(item(claim.sid, "d2"))).status is ItemStatus.CANCELLED
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert (state.status, state.waiting_items) == (Status.RUNNING, 0)


async def test_of_what_is_cancelled_as_much_is_counted_as_may_be_told(store: RedisStore) -> None:
    for reader, told in ((None, 3), (PUBLIC, 1), (parse("CONFIDENTIAL"), 2), (TOP, 3)):
        sid = fresh()
        for n, label in enumerate((PUBLIC, parse("INTERNAL~"), SECRET)):
            await store.sessions.accept(item(sid, f"d{n}", label))
        assert await store.sessions.stop(sid, actor="ann", reader=reader) == Stopped(
            running=False, cancelled=told, unanswered=(1, 2, 3)
        )
        state = await store.sessions.state(sid)
        assert state is not None
        assert state.waiting_items == 0


async def test_stopping_a_session_that_only_waits_makes_it_idle(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    assert await store.sessions.stop(sid, actor="ann") == Stopped(running=False, cancelled=1, unanswered=(1,))
    state = await store.sessions.state(sid)
    assert state is not None
    assert state.status is Status.IDLE
    assert await store.sessions.stop(sid, actor="ann") == Stopped(running=False, cancelled=0)


async def test_stopping_frees_a_turn_that_waits_for_people(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await command(store, "ZREM", "lg:ready", claim.sid)
    assert await store.sessions.stop(claim.sid, actor="ann") == Stopped(running=True, cancelled=0)
    (gone,) = await store.approvals.of(claim.sid)
    assert (gone.id, gone.state, gone.resolved_by) == (asked.id, ApprovalState.CANCELLED, "ann")
    assert await command(store, "ZSCORE", "lg:ready", claim.sid) is not None
    resumed = await claimed(store, claim.sid)
    assert resumed.state.status is Status.QUEUED
    assert await store.sessions.renew(resumed) is True


async def test_stopping_nothing_is_no_error(store: RedisStore) -> None:
    assert await store.sessions.stop(fresh(), actor="ann") == Stopped(running=False, cancelled=0)


async def test_a_reset_starts_with_nothing(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    again = await claimed(store, claim.sid, idle=True)
    deliver = (answer(), answer("k2"))
    await store.sessions.record(again, Write(fresh(), again.state.seq, events=(event(SECRET),), deliver=deliver[:1]))
    held = await claimed(store, claim.sid, owner=again.owner)
    written = await store.sessions.record(held, Write(fresh(), held.state.seq, deliver=deliver[1:]), sender="me")
    (_, sending) = await store.outbox.deliveries(claim.sid)
    await store.sessions.accept(item(claim.sid, "d2"))

    state = await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=(row("reset"),))

    assert (state.generation, state.seq, state.generation_seq) == (2, written.seq + 1, written.seq + 1)
    assert (state.taint, state.creation, state.inbox_label) == (PUBLIC, PUBLIC, PUBLIC)
    assert (state.status, state.turn, state.last_turn, state.waiting_items) == (Status.IDLE, None, None, 0)
    assert [one.state for one in await store.outbox.deliveries(claim.sid)] == [DeliveryState.CANCELLED] * 2
    assert await store.outbox.settle(sending, "me", DeliveryState.SENT, audit=(row(),)) is False
    assert await store.approvals.of(claim.sid) == ()
    (resolved,) = await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=())
    assert resolved.state is ApprovalState.CANCELLED
    for dedupe in ("d1", "d2"):
        assert (await store.sessions.accept(item(claim.sid, dedupe))).status is ItemStatus.CANCELLED
    assert len(await store.audit.records(claim.sid)) == 1
    (_, *_, last) = await store.sessions.events(claim.sid)
    assert (last.type, last.generation, last.actor) == (EventType.SESSION_RESET, 2, "ann")
    fresh_claim = await claimed(store, claim.sid, idle=True)
    assert [one.type for one in fresh_claim.events] == [EventType.SESSION_RESET]


async def test_a_late_result_of_the_old_generation_is_dropped(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    before = await dump(store, claim.sid)
    with pytest.raises(ResetError):
        await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    with pytest.raises(ResetError):
        await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    assert await dump(store, claim.sid) == before


async def test_usage_is_that_of_a_generation(store: RedisStore) -> None:
    """How much was asked about what was forgotten tells of that."""
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    before = await store.sessions.state(claim.sid)
    assert before is not None
    assert before.usage == Usage(1, 10, 20)
    state = await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert state.usage == Usage()


async def test_the_same_reset_answers_as_the_first_time(store: RedisStore) -> None:
    claim, _ = await started(store)
    op = fresh()
    first = await store.sessions.reset(claim.sid, op=op, actor="ann", audit=(row(),))
    await store.sessions.accept(item(claim.sid, "d9"))
    assert await store.sessions.reset(claim.sid, op=op, actor="ann", audit=(row(),)) == first


async def test_a_second_reset_forgets_the_questions_of_the_first(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    for _ in range(2):
        await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    with pytest.raises(NotFoundError):
        await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=())


async def test_what_cannot_be_reset(store: RedisStore) -> None:
    with pytest.raises(NotFoundError):
        await store.sessions.reset(fresh(), op=fresh(), actor="ann", audit=())
    claim, _ = await started(store)
    await put_state(store, claim.sid, status="archived")
    with pytest.raises(ArchivedError):
        await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())


async def test_a_newer_record_is_refused(store: RedisStore) -> None:
    claim, _ = await started(store)
    await put_state(store, claim.sid, version=3)
    before = await dump(store, claim.sid)
    with pytest.raises(SchemaError):
        await store.sessions.stop(claim.sid, actor="ann")
    with pytest.raises(SchemaError):
        await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    assert await dump(store, claim.sid) == before
