"""A store that lost what it had acknowledged: the processes that know more find it, and the session goes on soundly.

A session is put back to an earlier state of its own, as a replica that lagged has it. `test_failover` really loses it.
"""

# pyright: reportPrivateUsage=false

from functools import partial

import anyio
import pytest

from bot.audit.chain import Intact, verify
from bot.core.errors import LeaseLostError, SchemaError
from bot.sessions.approvals import ApprovalState
from bot.sessions.background.delegation import Arrival
from bot.sessions.deliveries import DeliveryState, NewDelivery
from bot.sessions.inbox import ItemStatus
from bot.sessions.installation.losses import LOG_TRUNCATED, Loss
from bot.sessions.log.event_types import LogTruncated
from bot.sessions.log.events import EventType, Visibility
from bot.sessions.models import Claim, Status, Turn, Write
from bot.store.losses.losses import TOLD, TOLD_RESET
from bot.store.records.marks import MOST, LogMark, LogMarks
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD
from channels.messages import OutboundKind
from policy.labels import PUBLIC, Label, join_all
from tests.store.world import (
    HOME,
    SECRET,
    SIGNERS,
    claimed,
    command,
    earlier,
    ending,
    event,
    fresh,
    item,
    keys,
    opening,
    parcel,
    put_state,
    question,
    remembered,
    row,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio


async def found(store: RedisStore) -> tuple[Loss, ...]:
    """Return what a process finds when it compares."""
    await store.losses.look()
    return store.losses.taken()


async def taint_of(store: RedisStore, sid: str) -> Label:
    """Return a session's taint, which is the fold of its log."""
    state = await store.sessions.state(sid)
    assert state is not None
    log = await store.sessions.events(sid)
    assert [one.seq for one in log] == list(range(1, state.seq + 1))
    assert state.taint == join_all((one.label for one in log if one.admitted), start=PUBLIC)
    return state.taint


async def clock_moved(store: RedisStore) -> None:
    """Wait until events get another time."""

    async def now() -> int:
        seconds, micro = await command(store, "TIME")
        return int(seconds) * 1000 + int(micro) // 1000

    before = await now()
    while await now() == before:
        pass


async def truncated(store: RedisStore) -> tuple[Claim, Write]:
    """Return the claim of a session that lost its last two events, which had raised it, and its next write."""
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    write = Write(fresh(), written.seq, events=(event(SECRET), event()), audit=(row("read"),))
    after = await store.sessions.record(claim, write)
    await back()
    return claim, ending(after.seq, 1)


async def test_nothing_is_found_where_nothing_was_lost(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),), audit=(row(),)))
    await store.audit.append((row(),))
    assert await found(store) == ()


async def test_nothing_is_found_while_a_session_is_worked(store: RedisStore) -> None:
    claim, written = await started(store)

    async def work() -> None:
        seq = written.seq
        for number in range(60):
            # Rows alone move nothing but the head of the chain.
            events = (event(),) if number % 3 == 0 else ()
            seq = (await store.sessions.record(claim, Write(fresh(), seq, events=events, audit=(row(),)))).seq
        tasks.cancel_scope.cancel()

    async def look() -> None:
        while True:
            await store.losses.look()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        tasks.start_soon(work)
    assert store.losses.taken() == ()


async def test_a_write_on_its_way_is_no_loss(store: RedisStore) -> None:
    """The store answers a look by what it has, and the write by what the look did not know yet."""
    claim, written = await started(store)
    seq = written.seq
    for _ in range(20):
        async with anyio.create_task_group() as tasks:
            write = Write(fresh(), seq, events=(event(),), audit=(row(),))
            tasks.start_soon(store.sessions.record, claim, write)
            tasks.start_soon(partial(store.losses.witness, claim.sid, seq=1))
        seq += 1
        # Two events of one millisecond are one to a mark.
        await clock_moved(store)
    assert store.losses.taken() == ()
    assert [one.type for one in await store.sessions.events(claim.sid)].count(EventType.LOG_TRUNCATED) == 0


async def test_a_loss_that_others_noted_is_found_once(store: RedisStore, other: RedisStore) -> None:
    """Its first owner hears of it in a refusal, after others had written more."""
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    after = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET), event())))
    await other.sessions.news(claim.sid)
    await back()
    assert len(await found(other)) == 1
    theirs = await claimed(other, claim.sid)
    await clock_moved(store)
    await other.sessions.record(theirs, Write(fresh(), theirs.state.seq, events=(event(), event())))
    with pytest.raises(LeaseLostError):
        await store.sessions.commit(claim, ending(after.seq, 1))
    assert await found(store) == ()


async def test_a_session_says_what_it_lost_and_its_taint_rises_again(store: RedisStore) -> None:
    claim, _ = await truncated(store)
    before = await store.sessions.events(claim.sid)
    assert await taint_of(store, claim.sid) == PUBLIC
    (loss,) = await found(store)
    kept = before[-1].seq
    assert loss == Loss(claim.sid, kept, kept + 2, SECRET)
    log = await store.sessions.events(claim.sid)
    assert log[:kept] == before
    # The number of each lost event is taken, and what follows is for readers who may have read those.
    *gaps, told = log[kept:]
    assert [one.seq for one in gaps] == [kept + 1, kept + 2]
    assert {one.body for one in (*gaps, told)} == {LogTruncated(kept, kept + 2)}
    assert {(one.label, one.visibility, one.admitted) for one in gaps} == {(SECRET, Visibility.INTERNAL, False)}
    assert (told.label, told.visibility, told.admitted) == (SECRET, Visibility.USER, True)
    assert await taint_of(store, claim.sid) == SECRET


async def test_people_are_told_once_at_the_label_of_what_was_lost(store: RedisStore) -> None:
    claim, _ = await truncated(store)
    assert len(await found(store)) == 1
    (notice,) = await store.outbox.deliveries(claim.sid)
    assert (notice.text, notice.label, notice.kind) == (TOLD, SECRET, "notice")
    assert await found(store) == ()
    assert len(await store.outbox.deliveries(claim.sid)) == 1


async def test_the_audit_tells_it_and_holds(store: RedisStore) -> None:
    claim, _ = await truncated(store)
    await found(store)
    rows = await store.audit.records(claim.sid)
    head = await store.audit.head(claim.sid)
    assert rows[-1].kind == LOG_TRUNCATED
    assert rows[-1].body["label"] == str(SECRET)
    # The row was anchored elsewhere before it was lost.
    lost = (1, "h" * 43)
    checked = verify(claim.sid, rows, claimed=head, anchor=lost, signers=SIGNERS)
    assert checked == Intact(head[0], head[1], lost=1)
    later = verify(claim.sid, rows, claimed=head, anchor=(head[0], "h" * 43), signers=SIGNERS)
    assert not isinstance(later, Intact) or head[0] == 1


async def test_the_turn_of_the_lost_events_writes_nothing_more(store: RedisStore) -> None:
    claim, write = await truncated(store)
    with pytest.raises(LeaseLostError):
        await store.sessions.commit(claim, write)
    # It was found there.
    assert [loss.sid for loss in store.losses.taken()] == [claim.sid]
    again = await claimed(store, claim.sid)
    assert again.fence > claim.fence + 1
    assert again.state.turn is not None
    assert (again.state.turn.attempt, again.state.turn.handed) == (2, 1)
    assert again.events[-1].type == EventType.LOG_TRUNCATED


async def test_a_claim_finds_it_before_its_turn_begins(store: RedisStore) -> None:
    claim, _ = await truncated(store)
    await store.sessions.release(claim)
    again = await claimed(store, claim.sid)
    assert again.state.taint == SECRET
    assert again.events[-1].type == EventType.LOG_TRUNCATED
    assert await store.sessions.record(again, Write(fresh(), again.state.seq, events=(event(),)))
    assert len(store.losses.taken()) == 1


async def test_a_hole_in_a_log_is_no_lost_end(store: RedisStore) -> None:
    """Its check finds the hole; a worker that claims the session meets no other event at a place that it knows."""
    claim, written = await started(store)
    write = Write(fresh(), written.seq, events=(event(), event()))
    await store.sessions.record(claim, write)
    await store.sessions.release(claim)
    await command(store, "XDEL", keys(claim.sid).log, "2-0")
    again = await claimed(store, claim.sid)
    assert len(again.events) == again.state.seq - 1
    assert store.losses.taken() == ()


async def test_another_history_of_the_same_length_is_found(store: RedisStore, other: RedisStore) -> None:
    claim, _ = await truncated(store)
    await other.sessions.release(claim)
    theirs = await claimed(other, claim.sid)
    await other.sessions.record(theirs, Write(fresh(), theirs.state.seq, events=(event(), event(), event())))
    (loss,) = await found(store)
    assert loss.label == SECRET
    with pytest.raises(LeaseLostError):
        await other.sessions.record(theirs, Write(fresh(), theirs.state.seq + 3, events=(event(),)))
    assert await taint_of(other, claim.sid) == SECRET


@pytest.mark.parametrize("behind", [0, 4], ids=["its reader begins anew", "its reader read the lost events"])
async def test_a_reader_finds_another_history(store: RedisStore, other: RedisStore, *, behind: int) -> None:
    """It has no event of its own to compare: its mark is not replaced by a state of the other history."""
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(), event()), audit=(row(),)))
    reader = other
    await reader.sessions.news(claim.sid)
    known = written.seq + 2
    await back()
    await clock_moved(store)
    # As by a process that did not know.
    store._shared.marks.forget(claim.sid)
    store._shared.heads.clear()
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(), event(), event())))
    _, state = await reader.sessions.news(claim.sid, after=known if behind else 0)
    (loss,) = reader.losses.taken()
    assert (loss.kept, loss.lost) == (known + 1, known + 1)
    assert state is not None
    assert state.seq == known + 2
    assert await found(reader) == ()


async def test_a_reset_after_a_loss_uses_no_number_twice(store: RedisStore, other: RedisStore) -> None:
    """What was lost was of the generation before, so its label does not rise again in the next one."""
    claim, _ = await truncated(store)
    kept = len(await store.sessions.events(claim.sid))
    state = await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=(row("reset"),))
    assert (state.seq, state.generation) == (kept + 1, 2)
    (loss,) = await found(store)
    assert (loss.kept, loss.lost, loss.label, loss.reset) == (kept + 1, kept + 2, PUBLIC, False)
    _, state = await other.sessions.news(claim.sid)
    assert state is not None
    assert (state.seq, state.taint) == (kept + 3, PUBLIC)


async def test_a_claim_finds_what_a_reset_hid(store: RedisStore, other: RedisStore) -> None:
    """The context of the claim begins behind the event that is known last."""
    claim, _ = await truncated(store)
    await clock_moved(store)
    await other.sessions.release(claim)
    theirs = await claimed(other, claim.sid)
    await other.sessions.record(theirs, Write(fresh(), theirs.state.seq, events=(event(), event(), event())))
    await other.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())
    await store.sessions.accept(item(claim.sid, "d2"))
    again = await claimed(store, claim.sid)
    assert again.events[-1].type == EventType.LOG_TRUNCATED
    assert again.state.taint == PUBLIC
    assert len(store.losses.taken()) == 1


async def test_a_session_whose_deletion_was_lost_is_neither_worked_nor_shown(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.release(claim)
    back = await remembered(store, claim.sid)
    await store.lifecycle.delete(claim.sid, ())
    await back()
    assert await store.sessions.news(claim.sid) == ((), None)
    assert await store.sessions.claim(claim.sid, fresh()) is None
    assert await store.sessions.claim(claim.sid, fresh()) is None
    (loss,) = store.losses.taken()
    assert loss.deleted
    assert (await store.sessions.events(claim.sid))[-1].seq == written.seq


async def test_two_processes_that_know_it_tell_it_once(store: RedisStore, other: RedisStore) -> None:
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    await other.sessions.news(claim.sid)
    await back()
    assert len(await found(store)) == 1
    assert await found(other) == ()
    assert len(await store.outbox.deliveries(claim.sid)) == 1


async def test_who_knows_more_tells_more(store: RedisStore, other: RedisStore) -> None:
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    await other.sessions.news(claim.sid)
    after = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),)))
    await other.sessions.news(claim.sid)
    await store.sessions.record(claim, Write(fresh(), after.seq, events=(event(SECRET), event(), event())))
    await back()
    assert [loss.lost for loss in await found(other)] == [after.seq]
    (loss,) = await found(store)
    assert (loss.lost, loss.label) == (after.seq + 3, SECRET)
    assert len(await store.outbox.deliveries(claim.sid)) == 1
    assert await taint_of(store, claim.sid) == SECRET


async def test_a_claim_that_wrote_nothing_is_no_loss(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    back = await remembered(store, sid)
    await claimed(store, sid)
    await back()
    assert await found(store) == ()
    assert await store.outbox.deliveries(sid) == ()


async def test_a_lost_reset_is_told(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    back = await remembered(store, claim.sid)
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=(row("reset"),))
    await back()
    (loss,) = await found(store)
    assert loss.reset
    assert [one.text for one in await store.outbox.deliveries(claim.sid)] == [TOLD_RESET]


async def test_a_lost_deletion_is_found(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    back = await remembered(store, claim.sid)
    await store.lifecycle.delete(claim.sid, ())
    assert await found(store) == ()
    await back()
    (loss,) = await found(store)
    assert loss.deleted
    await store.lifecycle.delete(claim.sid, ())
    assert await found(store) == ()


async def test_a_session_that_is_gone_is_found_once(store: RedisStore) -> None:
    back = await remembered(store, sid := fresh())
    claim, written = await started(store, sid)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    await back()
    (loss,) = await found(store)
    assert (loss.gone, loss.kept, loss.lost, loss.label) == (True, 0, written.seq + 1, SECRET)
    assert await found(store) == ()


async def test_an_approval_that_may_have_been_used_counts_no_more(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=())
    back = await remembered(store, claim.sid)
    again = await claimed(store, claim.sid)
    used = Write(fresh(), again.state.seq, events=(event(),), use=asked.id)
    await store.sessions.record(again, used)
    await back()
    await found(store)
    third = await claimed(store, claim.sid)
    assert [one.state for one in third.approvals] == [ApprovalState.CANCELLED]


async def test_a_question_that_waits_still_waits(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    back = await remembered(store, claim.sid)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=())
    again = await claimed(store, claim.sid)
    await store.sessions.record(again, Write(fresh(), again.state.seq, events=(event(),)))
    await back()
    await found(store)
    state = await store.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.AWAITING_INPUT
    assert await store.sessions.claim(claim.sid, fresh()) is None


async def test_a_question_whose_answer_was_lost_is_asked_again(store: RedisStore) -> None:
    """Its copies say that it was answered and have no buttons: without another one the session would wait in vain."""
    claim, asked = await suspended(store)
    asks = NewDelivery("q1", HOME, "May I?", PUBLIC, kind=OutboundKind.QUESTION, turn="t")
    earlier_turn = NewDelivery("q0", HOME, "Might I?", PUBLIC, kind=OutboundKind.QUESTION, turn="s")
    for one in (asks, earlier_turn, NewDelivery("k1", HOME, "Hello", PUBLIC, turn="t")):
        await store.outbox.put(claim.sid, one)
        (sent,) = await store.outbox.take(claim.sid, "me", ("console",))
        await store.outbox.settle(sent, "me", DeliveryState.SENT, receipt="r1")
    back = await remembered(store, claim.sid)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=())
    again = await claimed(store, claim.sid)
    await store.sessions.record(again, Write(fresh(), again.state.seq, events=(event(),)))
    await back()
    await found(store)
    taken = await store.outbox.take(claim.sid, "me", ("console",))
    assert [(one.text, one.doubtful) for one in taken] == [("May I?", True), (TOLD, False)]
    assert await store.outbox.settle(taken[0], "me", DeliveryState.SENT, receipt="r2")


async def test_a_lost_answer_is_found_though_as_many_rows_were_written_since(
    store: RedisStore, other: RedisStore
) -> None:
    """An answer is no event, so the audit row alone tells of it."""
    claim, asked = await suspended(store)
    back = await remembered(store, claim.sid)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=(row("yes"),))
    await back()
    await other.lifecycle.pause(claim.sid, actor="ben", audit=(row("pause"),))
    await other.lifecycle.resume(claim.sid, actor="ben", audit=(row("resume"),))
    (loss,) = await found(store)
    assert loss.kept == loss.lost
    told = (await store.audit.records(claim.sid))[-1]
    assert (told.kind, told.body["records"]) == (LOG_TRUNCATED, 1)
    assert await found(store) == ()


async def test_an_answer_that_is_lost_soon_after_another_loss_is_found(store: RedisStore) -> None:
    """A loss has calls asked about: the rows of these questions have the numbers of the lost ones."""
    claim, written = await started(store)
    back = await remembered(store, claim.sid)
    await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),), audit=(row(), row(), row())))
    await back()
    assert len(await found(store)) == 1
    again = await claimed(store, claim.sid)
    asked, turn = question(again), Turn("t", 1, "d1", "ann", again.now, suspended=True)
    waiting = Write(fresh(), again.state.seq, ask=(asked,), turn=turn, status=Status.AWAITING_INPUT, release=True)
    await store.sessions.record(again, waiting)
    back = await remembered(store, claim.sid)
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=(row("yes"),))
    await back()
    assert len(await found(store)) == 1
    assert await found(store) == ()


async def test_a_record_elsewhere_tells_of_an_event(store: RedisStore, other: RedisStore) -> None:
    claim, written = await started(store)
    await other.losses.witness(claim.sid, seq=written.seq)
    assert other.losses.taken() == ()
    await other.losses.witness(claim.sid, seq=written.seq + 3)
    (loss,) = other.losses.taken()
    assert (loss.kept, loss.lost, loss.label) == (written.seq, written.seq + 3, PUBLIC)


async def test_an_anchored_head_tells_of_rows(store: RedisStore, other: RedisStore) -> None:
    claim, _ = await started(store)
    await other.losses.witness(claim.sid, audit=(5, "h" * 43))
    assert len(other.losses.taken()) == 1
    rows = await store.audit.records(claim.sid)
    assert rows[-1].body["records"] == 5
    # Known by now to all.
    await store.losses.witness(claim.sid, audit=(4, "h" * 43))
    assert store.losses.taken() == ()


@pytest.mark.parametrize("grown", [0, 3], ids=["shorter", "longer by now"])
async def test_lost_rows_of_the_chain_outside_sessions_are_found(own: RedisStore, *, grown: int) -> None:
    await own.audit.append((row("a"),))
    back = await earlier(own, AUDIT_CHAIN, AUDIT_HEAD)
    await own.audit.append((row("b"),))
    n, _ = await own.audit.head(AUDIT)
    await back()
    for _ in range(grown):
        await own.audit.append((row("c"),))
    (loss,) = await found(own)
    assert (loss.sid, loss.lost, loss.label) == (AUDIT, n, None)
    last = (await own.audit.records(AUDIT))[-1]
    assert (last.kind, last.body["records"]) == (LOG_TRUNCATED, n)
    assert await found(own) == ()


async def test_a_record_that_cannot_be_read_hides_no_other(store: RedisStore) -> None:
    broken, _ = await truncated(store)
    claim, _ = await truncated(store)
    await put_state(store, broken.sid, taint="NONSENSE")
    assert [loss.sid for loss in await found(store)] == [claim.sid]
    with pytest.raises(SchemaError):
        await store.losses.witness(broken.sid, seq=99)


async def test_inputs_are_remembered_for_a_minute(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid), unless_asked=True)
    assert (item(sid), True) in store.losses.recent()
    marks = LogMarks()
    marks.accepted(0.0, item(sid), unless_asked=False)
    assert marks.recent(59.0) == ((item(sid), False),)
    assert marks.recent(61.0) == ()
    marks.received(0.0, parcel(sid))
    assert (marks.parcels(59.0), marks.parcels(61.0)) == ((parcel(sid),), ())


def test_the_oldest_marks_are_forgotten() -> None:
    marks = LogMarks()
    for number in range(MOST + 1):
        marks.saw(f"s{number}", LogMark(1, 1))
    assert marks.of("s0") == LogMark()
    assert len(marks.sids) == MOST


def test_an_older_state_takes_no_newer_ones_place() -> None:
    marks = LogMarks()
    marks.saw("s", LogMark(1, 5, 77, 2))
    marks.saw("s", LogMark(1, 4, 66, 2))
    marks.saw("s", LogMark(1, 5, 0, 3))
    assert marks.of("s") == LogMark(1, 5, 77, 3)
    marks.deleted("s")
    marks.saw("s", LogMark(2, 6))
    assert marks.of("s").deleted


async def test_an_input_that_was_lost_waits_again(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    back = await remembered(store, sid)
    await store.sessions.accept(item(sid, "d2"))
    await back()
    accepted = [await store.sessions.accept(new, unless_asked=asked) for new, asked in store.losses.recent()]
    assert [one.duplicate for one in accepted if one.position == 2] == [False]
    assert {one.status for one in accepted} == {ItemStatus.WAITING, ItemStatus.CONSUMED} & {
        one.status for one in accepted
    }


async def test_a_message_of_another_session_that_was_lost_waits_again(store: RedisStore) -> None:
    sid = (await started(store))[0].sid
    back = await remembered(store, sid)
    sent = parcel(sid)
    assert await store.delegation.receive(sent) is Arrival.WAITING
    assert await store.delegation.receive(parcel(fresh())) is Arrival.ABSENT
    await back()
    assert await store.sessions.waiting(sid) == ()
    mine = [one for one in store.losses.parcels() if one.sid == sid]
    assert mine == [sent]
    for _ in range(2):
        await store.delegation.receive(mine[0])
    assert [one.dedupe for one in await store.sessions.waiting(sid)] == [sent.dedupe]


async def test_a_claim_that_is_repeated_finds_nothing(store: RedisStore) -> None:
    sid, owner = fresh(), fresh()
    await store.sessions.accept(item(sid))
    first = await claimed(store, sid, owner=owner)
    second = await claimed(store, sid, owner=owner)
    assert second.fence == first.fence
    assert store.losses.taken() == ()
    await store.sessions.record(second, opening(second))


async def test_only_a_change_of_servers_is_a_takeover(store: RedisStore) -> None:
    assert [await store.losses.took_over() for _ in range(3)] == [False] * 3
