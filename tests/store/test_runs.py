"""Runs in the store: made with their goal, going on by the end of each turn, changed by those who hold them alone."""

# pyright: reportPrivateUsage=false

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from bot.core.errors import (
    ArchivedError,
    BusyError,
    IllegalMoveError,
    LeaseLostError,
    NotFoundError,
    RequestError,
)
from bot.delegation.handoff import TAKEN
from bot.sessions.background.delegation import LATE, Arrival
from bot.sessions.background.run_states import AuthMethod, Breaker, EndReason, GapReason, Priority, RunStatus
from bot.sessions.background.runs import Gap, NewNote, Progress, ProgressChange, RunSlot, RunStep
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus
from bot.sessions.messages import Origin, OriginKind, SessionMessage
from bot.sessions.models import Claim, SessionKind, SessionQuery, SessionState, Status, Write
from bot.sessions.visibility import counts_still
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import run_slots_key, session_keys
from policy.labels import PUBLIC, Label, parse
from tests.fleets import Served
from tests.store.world import (
    KEY,
    SECRET,
    answer,
    claimed,
    command,
    end_lease,
    ending,
    event,
    fresh,
    goal,
    item,
    opening,
    parcel,
    put_state,
    row,
    run_started,
    started,
    state_field,
    statuses,
    stepping,
)

pytestmark = pytest.mark.anyio

HIGH: Final = parse("CONFIDENTIAL")


async def state_of(store: RedisStore, sid: str) -> SessionState:
    state = await store.sessions.state(sid)
    assert state is not None
    return state


def note(name: str = "", priority: Priority = Priority.NORMAL, label: Label = PUBLIC) -> NewNote:
    return NewNote(name or fresh(), priority, "look at the other folder", label, "ann")


# Beginning and going on -----------------------------------------------------------------------------------


async def test_a_run_and_its_goal_are_one_step(store: RedisStore) -> None:
    new = goal(label=HIGH)
    await store.sessions.accept(new)
    state = (await claimed(store, new.sid)).state
    assert (state.charter, state.progress, state.kind) == (new.charter, Progress(), SessionKind.RUN)
    assert (state.background, state.lineage, state.creation) == (new.charter, None, HIGH)
    assert state.title is not None
    assert (state.title.text, state.title.label) == ("nightly", HIGH)
    assert await store.runs.progress(new.sid) == Progress()
    late = goal(reserved=1)
    with pytest.raises(BusyError):
        await store.sessions.accept(late)
    assert await store.sessions.state(late.sid) is None


async def test_a_session_that_is_no_run_has_nothing_of_one(store: RedisStore) -> None:
    claim, written = await started(store)
    state = await state_of(store, claim.sid)
    assert (state.charter, state.progress, state.background, state.kind) == (None, None, None, SessionKind.CHAT)
    assert await store.runs.progress(claim.sid) is None
    before = await command(store, "HLEN", session_keys(claim.sid).state)
    assert not await store.runs.wake(claim.sid, "op", "go on", PUBLIC)
    with pytest.raises(NotFoundError):
        await store.runs.steer(claim.sid, note(), ())
    with pytest.raises(NotFoundError):
        await store.runs.change(claim, ProgressChange(task="t"))
    await store.sessions.record(claim, Write(fresh(), written.seq, acknowledge=("n",)))
    assert await command(store, "HLEN", session_keys(claim.sid).state) == before


async def test_the_end_of_a_turn_puts_the_next_one_into_the_inbox(store: RedisStore) -> None:
    new = goal(label=parse("INTERNAL"), who="bea")
    claim, written = await run_started(store, new)
    read = await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(SECRET),)))
    gaps = (Gap(1, 2, GapReason.CRASH), Gap(5, 0, GapReason.WAITING))
    end = stepping(read.seq, 1, Progress(turns=1, consecutive=2, gaps=gaps), text="go on")
    done = await store.sessions.commit(claim, end)
    assert done.waiting == 1
    state = await state_of(store, new.sid)
    assert (state.status, state.ended_at) == (Status.QUEUED, 0)
    assert state.progress == Progress(turns=1, consecutive=2, gaps=gaps)
    claim = await claimed(store, new.sid)
    (waiting,) = claim.items
    assert (waiting.dedupe, waiting.sender, waiting.label) == ("continue/t", "bea", state.visibility)
    assert waiting.body.origin == Origin(OriginKind.RUNTIME)
    # It is no person's message: a stop names none of those.
    await end_lease(store, new.sid)
    assert (await store.sessions.stop(new.sid, actor="bea")).unanswered == ()


@pytest.mark.parametrize("pauses", [False, True])
async def test_what_the_runtime_says_next_waits_once_and_not_for_a_run_that_pauses(
    store: RedisStore, *, pauses: bool
) -> None:
    """What others say to a run before its next turn has a turn of its own, and makes none of the run's more."""
    claim, written = await run_started(store)
    peer = SessionMessage("hello", origin=Origin(OriginKind.MESSAGE, "s"))
    await store.sessions.accept(replace(goal(claim.sid), dedupe="d2", charter=None, sender="eve", body=peer))
    await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    claim = await claimed(store, claim.sid)
    assert [one.dedupe for one in claim.items] == ["d2", "continue/t"]
    await store.sessions.record(claim, opening(claim, 2, "d2"))
    progress = Progress(turns=2, status=RunStatus.PAUSED if pauses else RunStatus.RUNNING)
    end = stepping(claim.state.seq + 1, 2, progress, text="" if pauses else "go on")
    assert end.end is not None
    await store.sessions.commit(claim, replace(end, end=replace(end.end, id="u")))
    state = await state_of(store, claim.sid)
    waiting = [one.dedupe for one in await store.sessions.waiting(claim.sid)]
    assert (state.status, waiting) == ((Status.IDLE, []) if pauses else (Status.QUEUED, ["continue/t"]))
    assert state.waiting_items == len(waiting)
    fate = ItemStatus.CANCELLED if pauses else ItemStatus.WAITING
    assert (await statuses(store, claim.sid))[1:] == [ItemStatus.CONSUMED, fate]


async def test_a_run_that_is_in_no_hint_is_found_by_the_sweep(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await command(store, "SREM", "lg:open", claim.sid)
    await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    assert await command(store, "SISMEMBER", "lg:open", claim.sid)
    await command(store, "ZREM", "lg:ready", claim.sid)
    assert claim.sid in await store.wake.sweep(("run",))
    assert await store.sessions.claim(claim.sid, fresh(), channels=("run",)) is not None


async def test_what_the_tools_of_a_run_changed_stays_with_the_end_of_a_turn(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.runs.change(claim, ProgressChange(task="a", completes=True, initializes=True))
    told = await store.runs.change(
        claim, ProgressChange(failed=3, skipped=1, beats=True, next_action="b", auth_method=AuthMethod.API_KEY)
    )
    assert told.initialized
    await store.runs.steer(claim.sid, note(priority=Priority.ABORT), ())
    stale = Progress(turns=1, breaker=Breaker.OPEN, opened_at=7, trips=1, status=RunStatus.PAUSED, consecutive=4)
    await store.sessions.commit(claim, replace(ending(written.seq, 1), run=RunStep(stale)))
    after = (await state_of(store, claim.sid)).progress
    assert after is not None
    assert after.aborting > 0
    assert after == replace(
        told,
        **{name: getattr(stale, name) for name in ("turns", "breaker", "opened_at", "trips", "status")},
        consecutive=4,
        aborting=after.aborting,
    )


async def test_a_run_that_its_agent_stopped_is_not_resumed_by_a_late_step(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.runs.change(claim, ProgressChange(status=RunStatus.STOPPED))
    await store.sessions.commit(claim, stepping(written.seq, 1, Progress(turns=1, status=RunStatus.RUNNING)))
    after = await store.runs.progress(claim.sid)
    assert after is not None
    assert after.status is RunStatus.STOPPED


async def test_paused_by_people_a_run_keeps_what_comes_next(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    assert (await state_of(store, claim.sid)).status is Status.PAUSED
    assert await store.sessions.claim(claim.sid, fresh()) is None
    await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    assert [one.dedupe for one in (await claimed(store, claim.sid)).items] == ["continue/t"]


# Ends -----------------------------------------------------------------------------------------------------


async def test_the_end_of_a_run_cancels_what_waits_and_archives_it(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.sessions.accept(replace(goal(claim.sid), dedupe="d2", charter=None))
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    end = stepping(
        written.seq, 1, Progress(turns=1, ended_at=claim.now, reason=EndReason.COMPLETED, status=RunStatus.STOPPED)
    )
    assert (await store.sessions.commit(claim, end)).waiting == 0
    state = await state_of(store, claim.sid)
    assert (state.status, state.waiting_items, state.turn) == (Status.ARCHIVED, 0, None)
    assert state.ended_at > 0
    assert state.progress is not None
    assert (state.progress.reason, state.progress.ended_at) == (EndReason.COMPLETED, claim.now)
    assert await statuses(store, claim.sid) == [ItemStatus.CONSUMED, ItemStatus.CANCELLED]
    with pytest.raises(ArchivedError):
        await store.lifecycle.restore(claim.sid, actor="ann", audit=())


async def test_a_run_that_has_ended_is_archived_once_it_was_heard_and_takes_nothing(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    end = stepping(written.seq, 1, Progress(turns=1, ended_at=claim.now, reason=EndReason.STOPPED))
    await store.sessions.commit(claim, replace(end, deliver=(answer(),)))
    assert (await state_of(store, claim.sid)).status is Status.IDLE
    with pytest.raises(ArchivedError):
        await store.sessions.accept(item(claim.sid, "d2"))
    assert await store.delegation.receive(parcel(claim.sid, report=True)) is Arrival.ENDED
    assert not await store.runs.wake(claim.sid, "op", "go on", PUBLIC)
    with pytest.raises(NotFoundError):
        await store.runs.steer(claim.sid, note(), ())
    (said,) = await store.outbox.take(claim.sid, "me", ("console",))
    await store.outbox.settle(said, "me", DeliveryState.SENT)
    assert (await state_of(store, claim.sid)).status is Status.ARCHIVED


async def test_what_a_run_holds_for_a_person_is_not_let_in_after_its_end(store: RedisStore) -> None:
    claim, written = await run_started(store)
    assert await store.delegation.receive(parcel(claim.sid, SECRET, report=True)) in TAKEN
    (held,) = await store.delegation.held(claim.sid)
    await store.sessions.commit(
        claim, stepping(written.seq, 1, Progress(turns=1, ended_at=claim.now, reason=EndReason.STOPPED))
    )
    with pytest.raises(NotFoundError):
        await store.delegation.decide_held(claim.sid, held.id, accept=True, op=fresh(), audit=())


@pytest.mark.parametrize("paused", [True, False])
async def test_a_run_that_waits_is_stopped_for_good(store: RedisStore, *, paused: bool) -> None:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    if paused:
        await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.sessions.stop(claim.sid, actor="ann")
    state = await state_of(store, claim.sid)
    assert (state.status, state.waiting_items) == (Status.ARCHIVED, 0)
    assert state.progress is not None
    assert (state.progress.status, state.progress.reason) == (RunStatus.STOPPED, EndReason.STOPPED)
    assert state.progress.ended_at == state.ended_at > 0


async def test_a_stop_that_comes_while_the_last_step_is_written_ends_a_run(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.sessions.stop(claim.sid, actor="ann")
    done = await store.sessions.commit(claim, stepping(written.seq, 1, Progress(turns=1), text="go on"))
    assert done.waiting == 0
    state = await state_of(store, claim.sid)
    assert (state.status, state.waiting_items, state.stopping) == (Status.ARCHIVED, 0, False)
    assert state.progress is not None
    assert (state.progress.status, state.progress.reason) == (RunStatus.STOPPED, EndReason.STOPPED)
    assert state.progress.ended_at == state.ended_at > 0


async def test_a_run_that_waits_is_ended_by_who_claims_it(store: RedisStore) -> None:
    """Without a turn: it is claimed after its deadline, whether people had paused it or not."""
    new = goal(deadline=1)
    await store.sessions.accept(new)
    await store.lifecycle.pause(new.sid, actor="ann", audit=())
    claim = await claimed(store, new.sid)
    ended = RunStep(Progress(ended_at=claim.now, reason=EndReason.DEADLINE))
    await store.sessions.commit(claim, Write(fresh(), claim.state.seq, run=ended))
    state = await state_of(store, new.sid)
    assert (state.status, state.waiting_items) == (Status.ARCHIVED, 0)
    assert state.progress is not None
    assert state.progress.reason is EndReason.DEADLINE


async def test_a_run_has_one_generation(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1))
    with pytest.raises(IllegalMoveError):
        await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=())


async def test_a_run_counts_for_listings_until_it_had_to_end(store: RedisStore) -> None:
    new = goal(label=parse("PUBLIC~"), deadline=1_000)
    await store.sessions.accept(new)
    state = await state_of(store, new.sid)
    assert counts_still(state, state.visibility, 1_000 + LATE)
    assert not counts_still(replace(state, status=Status.ARCHIVED), state.visibility, 1_001 + LATE)


async def test_runs_are_listed_as_runs(store: RedisStore) -> None:
    who = fresh()
    new, chat = goal(who=who), replace(item(fresh()), principal=who)
    await store.sessions.accept(new)
    await store.sessions.accept(chat)
    found = {kind: await store.index.listed(SessionQuery(who, PUBLIC, kind=kind)) for kind in SessionKind}
    assert {kind: [one.sid for one in page.sessions] for kind, page in found.items()} == {
        SessionKind.CHAT: [chat.sid],
        SessionKind.TASK: [],
        SessionKind.RUN: [new.sid],
    }


async def test_nothing_of_a_deleted_run_is_left(store: RedisStore) -> None:
    who, word = fresh(), "swordfish"
    new = goal(who=who)
    claim, _ = await run_started(store, new)
    await store.runs.reserve(who, place(new.charter.run if new.charter else "", new.sid), 5)
    await store.runs.lock(who, new.charter.run if new.charter else "", word, 1)
    await store.runs.change(claim, ProgressChange(task=word, completes=True))
    await store.runs.steer(new.sid, replace(note(), text=word), ())
    await store.lifecycle.delete(new.sid, ())
    keys = session_keys(new.sid)
    left = {key.decode() for key in await command(store, "KEYS", f"{keys.prefix}*")}
    assert left == {keys.state, keys.inputs}
    assert word.encode() not in await command(store, "DUMP", run_slots_key(who))
    # That it was deleted frees neither its place nor its slot: its pool may not know of that.
    (kept,) = await store.runs.slots(who)
    assert (kept.live, kept.slot) == (True, "")
    other = await store.runs.reserve(who, place(), 5)
    assert (await store.runs.lock(who, other.run, word, 1)).run == kept.run


# Its tools ------------------------------------------------------------------------------------------------


async def test_a_task_counts_once_by_whatever_claim(store: RedisStore) -> None:
    claim, _ = await run_started(store)
    await store.runs.change(claim, ProgressChange(task="a", consecutive=2))
    first = await store.runs.change(claim, ProgressChange(completes=True))
    assert (first.completed, first.consecutive, first.task) == (1, 0, "a")
    await end_lease(store, claim.sid)
    other = await claimed(store, claim.sid)
    assert await store.runs.change(other, ProgressChange(completes=True)) == first
    again = await store.runs.change(other, ProgressChange(task="b", completes=True))
    assert (again.completed, again.task) == (2, "b")
    assert await store.runs.change(other, ProgressChange(task="a", completes=True)) == replace(again, task="a")


@pytest.mark.parametrize(
    "change", [ProgressChange(failed=1), ProgressChange(skipped=1), ProgressChange(task="", completes=True)]
)
async def test_a_change_that_is_none_changes_nothing(store: RedisStore, change: ProgressChange) -> None:
    claim, _ = await run_started(store)
    before = await store.runs.change(claim, ProgressChange(failed=2, skipped=2, consecutive=3))
    assert (before.failed, before.skipped, before.consecutive) == (2, 2, 3)
    with pytest.raises(RequestError):
        await store.runs.change(claim, change)
    assert await store.runs.progress(claim.sid) == before
    assert (await store.runs.change(claim, ProgressChange(failed=2, consecutive=1))).consecutive == 1


async def test_a_run_that_is_stopped_stays_stopped(store: RedisStore) -> None:
    claim, _ = await run_started(store)
    await store.runs.change(claim, ProgressChange(status=RunStatus.STOPPED))
    assert (await store.runs.change(claim, ProgressChange(status=RunStatus.STOPPED))).over
    with pytest.raises(RequestError):
        await store.runs.change(claim, ProgressChange(status=RunStatus.RUNNING))


@pytest.mark.parametrize("late, refused", [(LATE + 60_000, True), (LATE - 60_000, False)])
async def test_a_run_is_changed_until_its_deadline_and_a_little_longer(
    store: RedisStore, *, late: int, refused: bool
) -> None:
    claim, _ = await run_started(store)
    assert claim.state.charter is not None
    new = goal(deadline=claim.now - late)
    claim, _ = await run_started(store, new)
    if refused:
        with pytest.raises(RequestError):
            await store.runs.change(claim, ProgressChange(task="a"))
    else:
        await store.runs.change(claim, ProgressChange(task="a"))


async def lost(store: RedisStore, claim: Claim) -> None:
    """Let another worker take a session."""
    await end_lease(store, claim.sid)
    await claimed(store, claim.sid)


async def test_stale_fence_writes_nothing(store: RedisStore) -> None:
    """A holder that was stopped past its lease wakes and finds the session taken."""
    claim, written = await run_started(store)
    await lost(store, claim)
    before = await command(store, "HGETALL", session_keys(claim.sid).state)
    with pytest.raises(LeaseLostError):
        await store.runs.change(claim, ProgressChange(task="a", completes=True))
    with pytest.raises(LeaseLostError):
        await store.sessions.commit(claim, stepping(written.seq, 1, text="go on"))
    assert await command(store, "HGETALL", session_keys(claim.sid).state) == before
    assert not await command(store, "EXISTS", session_keys(claim.sid).tasks)


async def test_a_change_keeps_what_nobody_here_knows(store: RedisStore) -> None:
    claim, _ = await run_started(store)
    await put_state(store, claim.sid, progress=b"\x81\xa4new1\x07")
    await store.runs.change(claim, ProgressChange(task="a"))
    stored = await state_field(store, claim.sid, "progress")
    assert stored is not None
    assert b"\xa4new1\x07" in stored


# Steering -------------------------------------------------------------------------------------------------


async def test_notes_are_pending_until_the_log_holds_what_told_them(store: RedisStore) -> None:
    claim, written = await run_started(store)
    first, second, third = note(), note(priority=Priority.URGENT), note(label=HIGH)
    for one in (first, second, third, first):
        await store.runs.steer(claim.sid, one, (row(),))
    told = await store.runs.notes(claim.sid)
    assert [(one.id, one.priority, one.label, one.read_at) for one in told] == [
        (one.id, one.priority, one.label, 0) for one in (first, second, third)
    ]
    assert len(await store.audit.records(claim.sid)) == 3
    result = Write(fresh(), written.seq, events=(event(),), acknowledge=(first.id, second.id, "unknown"))
    await store.sessions.record(claim, result)
    read = await store.runs.notes(claim.sid)
    assert [one.read_at > 0 for one in read] == [True, True, False]
    again = Write(fresh(), written.seq + 1, acknowledge=(first.id,))
    await store.sessions.record(claim, again)
    assert await store.runs.notes(claim.sid) == read


async def test_steering_wakes_nobody_and_what_is_above_shows_nowhere(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1))
    before = await state_of(store, claim.sid)
    await store.runs.steer(claim.sid, note(priority=Priority.ABORT, label=HIGH), ())
    assert await state_of(store, claim.sid) == before
    await store.runs.steer(claim.sid, note(priority=Priority.ABORT), ())
    after = await store.runs.progress(claim.sid)
    assert after is not None
    assert after.aborting > 0
    assert (await state_of(store, claim.sid)).status is Status.IDLE
    await store.runs.steer(claim.sid, note(priority=Priority.ABORT), ())
    assert await store.runs.progress(claim.sid) == after


async def test_a_note_from_above_that_ends_a_run_counts_from_when_it_is_read(store: RedisStore) -> None:
    claim, written = await run_started(store)
    above = note(priority=Priority.ABORT, label=HIGH)
    await store.runs.steer(claim.sid, above, ())
    read = Write(fresh(), written.seq, events=(event(HIGH),), acknowledge=(above.id,))
    await store.sessions.record(claim, read)
    told = await store.runs.progress(claim.sid)
    assert told is not None
    assert told.aborting > 0


async def test_as_many_notes_of_a_level_wait_as_may(server: Served) -> None:
    store = await open_store(audit_key=KEY, url=server.url, options=StoreOptions(notes_limit=2))
    claim, written = await run_started(store)
    first = note(label=HIGH)
    for one in (first, note(label=parse("CONFIDENTIAL~"))):
        await store.runs.steer(claim.sid, one, ())
    with pytest.raises(BusyError):
        await store.runs.steer(claim.sid, note(label=HIGH), ())
    for _ in range(2):
        await store.runs.steer(claim.sid, note(), ())
    await store.sessions.record(claim, Write(fresh(), written.seq, acknowledge=(first.id,)))
    await store.runs.steer(claim.sid, note(label=HIGH), ())
    await store.close()


# Waking ---------------------------------------------------------------------------------------------------


async def test_a_run_is_woken_once_and_only_when_nothing_goes_on(store: RedisStore) -> None:
    claim, written = await run_started(store)
    assert not await store.runs.wake(claim.sid, "a", "go on", PUBLIC)
    await store.sessions.commit(claim, stepping(written.seq, 1))
    assert [await store.runs.wake(claim.sid, one, "go on", PUBLIC) for one in ("b", "b", "c")] == [True, True, False]
    claim = await claimed(store, claim.sid)
    assert [(one.dedupe, one.body.text) for one in claim.items] == [("continue/b", "go on")]


async def test_a_probe_lets_a_run_try_again(store: RedisStore) -> None:
    claim, written = await run_started(store)
    paused = Progress(turns=1, breaker=Breaker.OPEN, opened_at=5, trips=1, consecutive=4, status=RunStatus.PAUSED)
    await store.sessions.commit(claim, stepping(written.seq, 1, paused))
    assert [await store.runs.wake(claim.sid, "p", "try", PUBLIC, probe=True) for _ in range(2)] == [True, True]
    state = await state_of(store, claim.sid)
    assert state.progress == Progress(turns=1, breaker=Breaker.HALF_OPEN, opened_at=5, trips=1, consecutive=4)
    claim = await claimed(store, claim.sid)
    await store.sessions.record(claim, replace(opening(claim, 2, "continue/p")))
    await store.sessions.commit(claim, replace(stepping(claim.state.seq + 1, 2)))
    assert not await store.runs.wake(claim.sid, "q", "try", PUBLIC, probe=True)
    assert (await state_of(store, claim.sid)).status is Status.IDLE


async def test_a_run_that_paused_itself_runs_again_when_it_is_woken(store: RedisStore) -> None:
    claim, written = await run_started(store)
    await store.sessions.commit(claim, stepping(written.seq, 1, Progress(turns=1, status=RunStatus.PAUSED)))
    assert await store.runs.wake(claim.sid, "r", "go on", PUBLIC)
    told = await store.runs.progress(claim.sid)
    assert told is not None
    assert told.status is RunStatus.RUNNING


# Places and slots -----------------------------------------------------------------------------------------


def place(run: str = "", sid: str = "", pool: Label = PUBLIC, until: int = 2**45) -> RunSlot:
    return RunSlot(run or fresh(), sid or fresh(), pool, "", since=0, until=until, fence=0, live=True)


async def test_as_many_runs_live_in_a_pool_as_may(store: RedisStore) -> None:
    who = fresh()
    first = await store.runs.reserve(who, place(), 2)
    assert (first.slot, first.fence, first.live) == ("", 0, True)
    assert first.since > 0
    await store.runs.reserve(who, place(), 2)
    with pytest.raises(BusyError):
        await store.runs.reserve(who, place(pool=parse("PUBLIC~")), 2)
    # The same run keeps its place; others are counted elsewhere, or are over.
    again = await store.runs.reserve(who, replace(first, until=1), 2)
    assert (again.run, again.until) == (first.run, first.until)
    await store.runs.reserve(who, place(pool=HIGH), 1)
    await store.runs.reserve(fresh(), place(), 1)
    await store.runs.free(who, first.run)
    await store.runs.free(who, first.run)
    await store.runs.reserve(who, place(until=1), 2)
    await store.runs.reserve(who, place(), 2)
    freed = await store.runs.reserve(who, first, 2)
    assert not freed.live
    assert {one.run: one.live for one in await store.runs.slots(who)}[first.run] is False


async def test_a_second_holder_of_a_slot_never_goes_on(store: RedisStore) -> None:
    who = fresh()
    one, two, above = place(), place(), place(pool=HIGH)
    for new in (one, two, above):
        await store.runs.reserve(who, new, 5)
    held = await store.runs.lock(who, one.run, "nightly", 1)
    assert (held.run, held.slot, held.fence) == (one.run, "nightly", 1)
    assert await store.runs.lock(who, one.run, "nightly", 1) == held
    assert await store.runs.lock(who, two.run, "nightly", 1) == held
    # What is locked above is another slot, and counts for itself.
    apart = await store.runs.lock(who, above.run, "nightly", 1)
    assert (apart.run, apart.fence) == (above.run, 1)
    assert (await store.runs.lock(who, two.run, "weekly", 1)).fence == 2
    await store.runs.free(who, one.run)
    assert (await store.runs.lock(who, two.run, "nightly", 1)).fence == 3
    # A worker that lost the run's session locks nothing behind the one that has it.
    assert (await store.runs.lock(who, two.run, "nightly", 2)).fence == 3
    with pytest.raises(LeaseLostError):
        await store.runs.lock(who, two.run, "weekly", 1)
    assert {one.run: one.slot for one in await store.runs.slots(who)}[two.run] == "nightly"
    for gone in (one.run, fresh()):
        with pytest.raises(NotFoundError):
            await store.runs.lock(who, gone, "nightly", 1)


async def test_a_slot_is_given_back_when_its_time_is_over(store: RedisStore) -> None:
    who = fresh()
    first = await store.runs.reserve(who, place(), 5)
    await store.runs.lock(who, first.run, "nightly", 1)
    now = first.since
    soon = await store.runs.reserve(who, place(until=now + 4_000), 5)
    second = await store.runs.reserve(who, place(), 5)
    assert (await store.runs.lock(who, soon.run, "weekly", 1)).run == soon.run
    async with asyncio.timeout(60):
        while (got := await store.runs.lock(who, second.run, "weekly", 1)).run != second.run:
            assert got.run == soon.run
            await asyncio.sleep(0.01)
    with pytest.raises(NotFoundError):
        await store.runs.lock(who, soon.run, "monthly", 1)
