"""The scripts `raise_taint` and `commit`: one atomic, fenced change to a claimed session."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from bot.core.errors import IllegalMoveError, LeaseLostError, NotFoundError, SchemaError, StoreRefusedError
from bot.sessions.approvals import ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus, Stopped
from bot.sessions.log.event_types import ToolResult, UnknownEvent, YieldReason
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.models import Claim, Status, Turn, Write, Written
from bot.sessions.usage import Usage
from bot.store.records.kinds import APPROVAL
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, join_all, parse
from tests.events import bodies
from tests.store.world import (
    HOME,
    SECRET,
    TOP,
    alter,
    answer,
    claimed,
    command,
    dump,
    end_lease,
    ending,
    event,
    fresh,
    item,
    keys,
    opening,
    put_state,
    question,
    row,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def test_opening_a_turn_takes_the_first_input(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.sessions.accept(item(sid, "d2"))
    claim = await claimed(store, sid)
    written = await store.sessions.record(claim, opening(claim))
    state = await store.sessions.state(sid)
    assert state is not None
    assert (written.seq, written.taint, written.stop) == (2, PUBLIC, False)
    assert (state.status, state.waiting_items) == (Status.RUNNING, 1)
    assert state.turn == Turn("t", 1, "d1", "ann", claim.now)


async def test_events_come_back_as_written(store: RedisStore) -> None:
    claim, written = await started(store)
    new = replace(event(SECRET, text="\0 \ud800"), visibility=Visibility.PROGRESS)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(new, event(admitted=False))))
    first, second = await store.sessions.events(claim.sid, after=2)
    assert (first.type, first.actor, first.label, first.body) == (new.type, new.actor, new.label, new.body)
    assert (first.visibility, first.admitted, first.turn, first.generation) == (Visibility.PROGRESS, True, "t", 1)
    assert (second.seq, second.admitted) == (4, False)


async def test_the_taint_rises_with_what_is_admitted_only(store: RedisStore) -> None:
    claim, written = await started(store)
    events = (event(parse("INTERNAL{hr}")), event(TOP, admitted=False), event(parse("CONFIDENTIAL{acme}")))
    written = await store.sessions.record(claim, Write(fresh(), written.seq, events=events))
    assert str(written.taint) == "CONFIDENTIAL{acme,hr}"
    log = await store.sessions.events(claim.sid)
    assert written.taint == join_all(one.label for one in log if one.admitted)


async def test_ending_a_turn(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(), answer("k2")), error="odd \ud800"))
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.last_turn is not None
    assert (state.status, state.turn, state.usage) == (Status.IDLE, None, Usage(1, 10, 20))
    assert (state.last_turn.reason, state.last_turn.error) == (YieldReason.ERROR, "odd \ud800")
    assert [(d.key, d.state, d.attempt) for d in await store.outbox.deliveries(claim.sid)] == [
        ("k1", DeliveryState.PENDING, 0),
        ("k2", DeliveryState.PENDING, 0),
    ]
    assert await store.sessions.claim(claim.sid, "w") is None


async def test_usage_adds_up_and_unknown_stays_unknown(store: RedisStore) -> None:
    claim, written = await started(store)
    end = ending(written.seq, 1)
    await store.sessions.commit(claim, replace(end, usage=Usage(2, 2**40, 7, complete=False)))
    again, written = await started_again(store, claim.sid, 2, "d2")
    await store.sessions.commit(again, ending(written.seq, 2))
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.usage == Usage(3, 2**40 + 10, 27, complete=False)


async def started_again(store: RedisStore, sid: str, position: int, dedupe: str) -> tuple[Claim, Written]:
    await store.sessions.accept(item(sid, dedupe))
    claim = await claimed(store, sid)
    return claim, await store.sessions.record(claim, opening(claim, position, dedupe))


async def test_more_inputs_keep_the_session_queued_and_ready(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.accept(item(claim.sid, "d2"))
    await command(store, "ZREM", "lg:ready", claim.sid)
    await store.sessions.commit(claim, replace(ending(written.seq, 1), status=Status.FAILED))
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.QUEUED
    assert await command(store, "ZSCORE", "lg:ready", claim.sid) is not None


async def test_a_failed_end_is_a_failed_session(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, replace(ending(written.seq, 1), status=Status.FAILED))
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.FAILED


async def test_settling_a_waiting_input_takes_it_out(store: RedisStore) -> None:
    claim, written = await started(store)
    for n in (2, 3):
        await store.sessions.accept(item(claim.sid, f"d{n}"))
    settled = ((3, ItemStatus.EXPIRED), (3, ItemStatus.REJECTED), (9, ItemStatus.REJECTED))
    await store.sessions.record(claim, Write(fresh(), written.seq, settle=settled))
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.waiting_items == 1
    assert (await store.sessions.accept(item(claim.sid, "d3"))).status is ItemStatus.EXPIRED


async def test_taking_and_settling_at_once(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    claim = await claimed(store, sid)
    await store.sessions.commit(claim, replace(ending(claim.state.seq, 1), take=1))
    assert (await store.sessions.accept(item(sid))).status is ItemStatus.CONSUMED


@pytest.mark.parametrize("take", [2, 7])
async def test_only_the_first_input_can_be_taken(store: RedisStore, take: int) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await store.sessions.accept(item(sid, "d2"))
    claim = await claimed(store, sid)
    before = await dump(store, sid)
    with pytest.raises(LeaseLostError, match="withdrawn"):
        await store.sessions.record(claim, opening(claim, take))
    assert await dump(store, sid) == before


async def test_an_input_withdrawn_meanwhile_cannot_be_taken(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    claim = await claimed(store, sid)
    assert await store.sessions.stop(sid, actor="ann") == Stopped(running=False, cancelled=1, unanswered=(1,))
    with pytest.raises(LeaseLostError, match="withdrawn"):
        await store.sessions.record(claim, opening(claim))


async def test_stale_fence_writes_nothing(store: RedisStore) -> None:
    claim, written = await started(store)
    await end_lease(store, claim.sid)
    await claimed(store, claim.sid)
    before = await dump(store, claim.sid)
    with pytest.raises(LeaseLostError):
        await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(TOP),), audit=(row(),)))
    with pytest.raises(LeaseLostError):
        await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    assert await dump(store, claim.sid) == before


async def test_a_lease_given_back_writes_nothing(store: RedisStore) -> None:
    claim, written = await started(store)
    committed = await store.sessions.commit(claim, ending(written.seq, 1))
    with pytest.raises(LeaseLostError):
        await store.sessions.record(claim, Write(fresh(), committed.seq, events=(event(TOP),)))


async def test_wrong_cursor_writes_nothing(store: RedisStore) -> None:
    claim, written = await started(store)
    before = await dump(store, claim.sid)
    with pytest.raises(LeaseLostError, match="log moved"):
        await store.sessions.record(claim, Write(fresh(), written.seq - 1, events=(event(TOP),)))
    assert await dump(store, claim.sid) == before


async def test_an_illegal_move_writes_nothing(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    claim = await claimed(store, sid)
    before = await dump(store, sid)
    with pytest.raises(IllegalMoveError):
        await store.sessions.record(claim, replace(opening(claim), status=Status.AWAITING_INPUT))
    assert await dump(store, sid) == before


async def test_a_newer_record_is_refused(store: RedisStore) -> None:
    claim, written = await started(store)
    await put_state(store, claim.sid, version=3)
    before = await dump(store, claim.sid)
    for write in (store.sessions.record, store.sessions.commit):
        with pytest.raises(SchemaError):
            await write(claim, Write(fresh(), written.seq, events=(event(TOP),)))
    assert await dump(store, claim.sid) == before


async def test_an_unknown_level_in_the_store_is_refused(store: RedisStore) -> None:
    claim, written = await started(store)
    await put_state(store, claim.sid, taint="COSMIC")
    with pytest.raises(SchemaError):
        await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    with pytest.raises(SchemaError):
        await store.sessions.state(claim.sid)


async def test_the_same_op_answers_as_the_first_time(store: RedisStore) -> None:
    claim, written = await started(store)
    write = Write(fresh(), written.seq, events=(event(SECRET),), audit=(row(),), deliver=(answer(),))
    first = await store.sessions.record(claim, write, sender="me")
    before = await dump(store, claim.sid)
    assert await store.sessions.record(claim, write, sender="me") == first
    end = ending(first.seq, 1)
    ended = await store.sessions.commit(claim, end)
    await claimed(store, claim.sid, idle=True)
    assert await store.sessions.commit(claim, end) == ended
    assert before != await dump(store, claim.sid)


async def test_an_approval_is_spent_once(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss \ud800", audit=())
    resumed = await claimed(store, claim.sid)
    assert [one.state for one in resumed.approvals] == [ApprovalState.APPROVED]
    spend = Write(fresh(), resumed.state.seq, use=asked.id, events=(event(),))
    written = await store.sessions.record(resumed, spend)
    (spent,) = await store.approvals.of(claim.sid)
    assert spent == replace(asked, state=ApprovalState.USED, resolved_by="boss \ud800")
    with pytest.raises(NotFoundError):
        await store.sessions.record(resumed, Write(fresh(), written.seq, use=asked.id))


@pytest.mark.parametrize("state", [ApprovalState.DENIED, ApprovalState.PENDING, None])
async def test_only_an_approved_one_can_be_spent(store: RedisStore, state: ApprovalState | None) -> None:
    claim, asked = await suspended(store)
    if state is ApprovalState.DENIED:
        await store.approvals.resolve(claim.sid, (asked.id,), state, actor="boss", audit=())
    resumed = await claimed(store, claim.sid, idle=True)
    before = await dump(store, claim.sid)
    with pytest.raises(NotFoundError):
        await store.sessions.record(resumed, Write(fresh(), resumed.state.seq, use=asked.id if state else "zzzzzzzz"))
    assert await dump(store, claim.sid) == before


async def test_one_past_its_time_cannot_be_spent(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=())
    resumed = await claimed(store, claim.sid)
    await alter(store, APPROVAL, keys(claim.sid).approvals, asked.id, expires=1)
    with pytest.raises(NotFoundError):
        await store.sessions.record(resumed, Write(fresh(), resumed.state.seq, use=asked.id))
    (read,) = await store.approvals.of(claim.sid)
    assert read.state is ApprovalState.EXPIRED


async def test_an_approval_is_never_replaced(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    again = await claimed(store, claim.sid, idle=True)
    with pytest.raises(StoreRefusedError, match="exists already"):
        await store.sessions.record(again, Write(fresh(), again.state.seq, ask=(question(claim, asked.id),)))


async def test_a_delivery_key_is_used_once(store: RedisStore) -> None:
    claim, written = await started(store)
    written = await store.sessions.record(
        claim, Write(fresh(), written.seq, deliver=(replace(answer(text="first"), approved=("mine",)),))
    )
    await store.sessions.record(claim, Write(fresh(), written.seq, deliver=(answer(text="second"),)))
    (kept,) = await store.outbox.deliveries(claim.sid)
    assert (kept.text, kept.address, kept.approved, kept.label, kept.kind) == (
        "first",
        HOME,
        ("mine",),
        PUBLIC,
        "answer",
    )


async def test_an_event_of_an_unknown_type_comes_back_as_written(store: RedisStore) -> None:
    claim, written = await started(store)
    unknown = UnknownEvent("chat.reaction", {"emoji": "é\ud800", "deep": [{"n": 1}], "large": "x" * 40_000})
    new = NewEvent("ann", SECRET, unknown, Visibility.USER, admitted=True, turn="t")
    after = await store.sessions.record(claim, Write(fresh(), written.seq, events=(new,)))
    (found,) = await store.sessions.events(claim.sid, after=written.seq)
    assert (found.type, found.body, found.label, found.actor) == ("chat.reaction", unknown, SECRET, "ann")
    # Whatever it is, it counts: law `taint_is_the_fold`.
    assert after.taint == SECRET


@pytest.mark.parametrize(
    "broken", [{}, {"call": "c"}, {"call": "c", "tool": "t", "text": "x", "outcome": "maybe"}], ids=str
)
async def test_a_broken_body_of_a_known_type_is_a_record_that_cannot_be_read(
    store: RedisStore, broken: dict[str, JsonValue]
) -> None:
    claim, written = await started(store)
    new = NewEvent("tool", PUBLIC, UnknownEvent("tool.result", broken))
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(new,), release=True))
    with pytest.raises(SchemaError):
        await store.sessions.events(claim.sid, after=written.seq)
    with pytest.raises(SchemaError):
        await store.sessions.claim(claim.sid, fresh(), idle=True)


async def test_large_bodies_live_under_keys_of_their_own(store: RedisStore) -> None:
    claim, written = await started(store)
    long = "é\ud800" * 40_000
    write = Write(fresh(), written.seq, events=(event(text=long), event(text=long)), deliver=(answer(text=long),))
    await store.sessions.record(claim, write)
    first, second = await store.sessions.events(claim.sid, after=written.seq)
    (said,) = await store.outbox.deliveries(claim.sid)
    assert [one.text for one in bodies((first, second), ToolResult)] == [long, long]
    assert said.text == long
    found: list[bytes] = await command(store, "KEYS", f"{keys(claim.sid).prefix}body:*")
    assert len(found) == 2
    for key in found:
        await command(store, "DEL", key)
    with pytest.raises(SchemaError, match="lost the body"):
        await store.sessions.events(claim.sid, after=written.seq)


async def test_the_stop_flag_is_told_until_the_turn_ends(store: RedisStore) -> None:
    claim, written = await started(store)
    assert await store.sessions.stop(claim.sid, actor="ann") == Stopped(running=True, cancelled=0)
    written = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),)))
    assert written.stop
    await store.sessions.commit(claim, ending(written.seq, 1))
    again, written = await started_again(store, claim.sid, 2, "d2")
    assert await store.sessions.renew(again) is False
    assert not written.stop
