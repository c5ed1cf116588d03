"""A session as a whole: what each status allows, and what is left of one that was deleted."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from bot.core.errors import ArchivedError, BusyError, DeletedError, IllegalMoveError, NotFoundError, RequestError
from bot.sessions.approvals import ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.lifecycle import FENCED, MOVES, OPERATIONS, IllegalMove
from bot.sessions.log.event_types import TurnCompleted, TurnState, YieldReason
from bot.sessions.log.events import EventType, NewEvent
from bot.sessions.models import SessionQuery, Status, Write
from bot.store.redis_store import RedisStore
from bot.store.schema import session_keys
from bot.store.scripts.loader import KEYS, Script, load_scripts
from policy.labels import PUBLIC
from tests.bot.kit import eventually
from tests.conventions.documents import ROOT
from tests.store.world import (
    SECRET,
    TOP,
    answer,
    child,
    claimed,
    command,
    end_lease,
    ending,
    event,
    fresh,
    item,
    parcel,
    row,
    started,
    state_field,
    suspended,
)

pytestmark = pytest.mark.anyio

WHOLE: Final = frozenset({"probe", "reclaim_process", "erased", "import_session", "rest_restored", "begun"})
"""Scripts that look at a session of any status, or make one."""

HIDDEN_WORDS: Final = "swordfish"


async def queued(store: RedisStore) -> str:
    sid = fresh()
    await store.sessions.accept(item(sid))
    return sid


async def idle(store: RedisStore) -> str:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1))
    return claim.sid


async def running(store: RedisStore) -> str:
    return (await started(store))[0].sid


async def asking(store: RedisStore) -> str:
    return (await suspended(store))[0].sid


async def failed(store: RedisStore) -> str:
    sid = await queued(store)
    await store.lifecycle.fail(sid)
    return sid


async def paused(store: RedisStore) -> str:
    sid = await idle(store)
    await store.lifecycle.pause(sid, actor="ann", audit=())
    return sid


async def archived(store: RedisStore) -> str:
    sid = await idle(store)
    await store.lifecycle.archive(sid, actor="ann", audit=())
    return sid


async def deleted(store: RedisStore) -> str:
    sid = await idle(store)
    await store.lifecycle.delete(sid, ())
    return sid


BROUGHT: Final = {
    Status.QUEUED: queued,
    Status.RUNNING: running,
    Status.AWAITING_INPUT: asking,
    Status.IDLE: idle,
    Status.FAILED: failed,
    Status.PAUSED: paused,
    Status.ARCHIVED: archived,
    Status.DELETED: deleted,
}


async def status(store: RedisStore, sid: str) -> Status:
    holder = await store.lifecycle.holder(sid)
    assert holder is not None
    assert holder.status is not None
    return holder.status


def test_every_script_that_reads_a_session_is_in_the_table() -> None:
    reading = {script.value for script in Script if "state" in KEYS[script]}
    assert reading == set(OPERATIONS) | FENCED | WHOLE


@pytest.mark.parametrize("script", [script for script in Script if script.value in OPERATIONS])
def test_every_script_asks_the_table(script: Script) -> None:
    assert "local ILLEGAL" in load_scripts()[script].text


def test_the_table_in_the_docs_is_this_one() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    told = {
        found[1]: tuple(word.strip() for word in found[2].split("|"))
        for found in re.finditer(r"^\| `(\w+)` \|((?:[^|\n]*\|){3})$", text, re.MULTILINE)
        if found[1] in OPERATIONS
    }
    columns = (Status.PAUSED, Status.ARCHIVED, Status.DELETED)
    assert told == {
        name: (*(row[one].value if one in row else "" for one in columns), "") for name, row in OPERATIONS.items()
    }


def test_no_status_leads_back_from_deleted() -> None:
    assert set(MOVES) == set(Status)
    assert not MOVES[Status.DELETED]


DO: Final[dict[str, Callable[[RedisStore, str], Awaitable[object]]]] = {
    "accept": lambda store, sid: store.sessions.accept(item(sid, "d9")),
    "claim": lambda store, sid: store.sessions.claim(sid, fresh(), idle=True),
    "stop": lambda store, sid: store.sessions.stop(sid, actor="ann"),
    "reset": lambda store, sid: store.sessions.reset(sid, op=fresh(), actor="ann", audit=()),
    "name": lambda store, sid: store.sessions.name(sid, None),
    "queue_mode": lambda store, sid: store.queue.set_mode(sid, QueueMode.QUEUE, ()),
    "put": lambda store, sid: store.outbox.put(sid, answer("k9")),
    "pause": lambda store, sid: store.lifecycle.pause(sid, actor="ann", audit=()),
    "resume": lambda store, sid: store.lifecycle.resume(sid, actor="ann", audit=()),
    "archive": lambda store, sid: store.lifecycle.archive(sid, actor="ann", audit=()),
    "restore": lambda store, sid: store.lifecycle.restore(sid, actor="ann", audit=()),
    "fail": lambda store, sid: store.lifecycle.fail(sid),
    "delete": lambda store, sid: store.lifecycle.delete(sid, ()),
}


@pytest.mark.parametrize("before", list(Status))
@pytest.mark.parametrize("operation", list(DO))
async def test_an_operation_fares_as_the_table_says(store: RedisStore, operation: str, before: Status) -> None:
    sid = await BROUGHT[before](store)
    assert await status(store, sid) is before
    held = await command(store, "HGETALL", session_keys(sid).state)
    how, error = OPERATIONS[operation].get(before), None
    try:
        await DO[operation](store, sid)
    except RequestError as met:
        error = met
    match how:
        case IllegalMove.REFUSED:
            assert isinstance(error, ArchivedError | IllegalMoveError | DeletedError)
        case IllegalMove.HIDDEN:
            assert type(error) is NotFoundError
        case IllegalMove.IGNORED:
            assert error is None
        case None:
            assert error is None or isinstance(error, BusyError | IllegalMoveError)
    after = await status(store, sid)
    if how is None:
        assert after is before or after in MOVES[before]
    else:
        assert await command(store, "HGETALL", session_keys(sid).state) == held


# Resting --------------------------------------------------------------------------------------------------


async def test_what_rests_takes_in_and_is_not_worked(store: RedisStore) -> None:
    sid = await paused(store)
    await store.sessions.accept(item(sid, "d2"))
    assert await status(store, sid) is Status.PAUSED
    assert await store.sessions.claim(sid, fresh()) is None
    await store.lifecycle.resume(sid, actor="ann", audit=(row(),))
    assert await status(store, sid) is Status.QUEUED
    assert await command(store, "ZSCORE", "lg:ready", sid)
    assert (await claimed(store, sid)).items[0].dedupe == "d2"


async def test_a_turn_that_runs_is_run_to_its_end(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.RUNNING
    await store.sessions.accept(item(claim.sid, "d2"))
    # Its worker goes on from where it wrote last: who pauses it writes nothing in between.
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert await status(store, claim.sid) is Status.PAUSED
    assert await store.sessions.claim(claim.sid, fresh()) is None


async def test_one_that_runs_may_rest_and_go_on_unnoticed(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=(row(),))
    await store.lifecycle.resume(claim.sid, actor="ann", audit=(row(),))
    await store.sessions.commit(claim, ending(written.seq, 1))
    assert await status(store, claim.sid) is Status.IDLE


async def test_a_turn_whose_worker_vanished_is_run_to_its_end_all_the_same(store: RedisStore) -> None:
    claim, _ = await started(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await end_lease(store, claim.sid)
    again = await claimed(store, claim.sid)
    await store.sessions.commit(again, ending(again.state.seq, 1))
    assert await status(store, claim.sid) is Status.PAUSED
    await store.lifecycle.archive(claim.sid, actor="ann", audit=())


async def test_what_rests_and_asks_is_stopped_and_archived(store: RedisStore) -> None:
    claim, _ = await suspended(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    assert await store.sessions.claim(claim.sid, fresh()) is None
    await store.sessions.stop(claim.sid, actor="ann")
    again = await claimed(store, claim.sid)
    await store.sessions.commit(again, ending(again.state.seq, 1))
    assert await status(store, claim.sid) is Status.PAUSED
    await store.lifecycle.archive(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.ARCHIVED


async def test_a_task_that_rests_is_over_when_it_goes_on(store: RedisStore) -> None:
    task = child(fresh())
    await store.sessions.accept(task)
    claim = await claimed(store, task.sid)
    await store.lifecycle.pause(task.sid, actor="ann", audit=())
    await store.sessions.commit(claim, replace(ending(claim.state.seq, 1), take=1))
    assert await status(store, task.sid) is Status.PAUSED
    # What it spawned reports: that waits, as all does that it is told.
    await store.delegation.receive(parcel(task.sid, report=True))
    assert await store.sessions.claim(task.sid, fresh()) is None
    await store.lifecycle.resume(task.sid, actor="ann", audit=())
    again = await claimed(store, task.sid)
    await store.lifecycle.pause(task.sid, actor="ann", audit=())
    await store.sessions.commit(again, replace(ending(again.state.seq, 2), take=2))
    await store.lifecycle.resume(task.sid, actor="ann", audit=())
    assert await status(store, task.sid) is Status.ARCHIVED


async def test_one_that_runs_is_resumed_before_it_rests(store: RedisStore) -> None:
    claim, _ = await started(store)
    with pytest.raises(IllegalMoveError):
        await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.RUNNING
    assert not await state_field(store, claim.sid, "paused")


async def test_a_question_that_is_answered_meanwhile_is_gone_on_with_afterwards(store: RedisStore) -> None:
    claim, asked = await suspended(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.approvals.resolve(claim.sid, (asked.id,), ApprovalState.APPROVED, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.PAUSED
    await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.QUEUED


async def test_one_that_waits_for_an_answer_waits_again(store: RedisStore) -> None:
    claim, _ = await suspended(store)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.AWAITING_INPUT


async def test_one_whose_turn_ended_with_a_question_waits_again(store: RedisStore) -> None:
    claim, written = await started(store)
    end = ending(written.seq, 1)
    assert end.end is not None
    asked = replace(end, end=replace(end.end, reason=YieldReason.NEEDS_INPUT), status=Status.AWAITING_INPUT)
    await store.sessions.commit(claim, asked)
    await store.lifecycle.pause(claim.sid, actor="ann", audit=())
    await store.lifecycle.resume(claim.sid, actor="ann", audit=())
    assert await status(store, claim.sid) is Status.AWAITING_INPUT


# Archived -------------------------------------------------------------------------------------------------


async def test_what_waits_is_cancelled_when_a_session_is_archived(store: RedisStore) -> None:
    sid = await queued(store)
    await store.lifecycle.archive(sid, actor="ann", audit=(row(),))
    outcome = await store.sessions.outcome(sid, "d1")
    assert outcome is not None
    assert outcome.status is ItemStatus.CANCELLED
    page = await store.index.listed(SessionQuery("ann", TOP, limit=200, archived=True))
    assert sid in {state.sid for state in page.sessions}
    assert [one.type for one in await store.sessions.events(sid)][-1] == EventType.SESSION_ARCHIVED


async def test_an_open_turn_has_to_end_before(store: RedisStore) -> None:
    for sid in (await running(store), await asking(store)):
        with pytest.raises(BusyError):
            await store.lifecycle.archive(sid, actor="ann", audit=())


async def test_what_was_to_be_said_is_said_afterwards(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    await store.lifecycle.archive(claim.sid, actor="ann", audit=())
    (taken,) = await store.outbox.take(claim.sid, "p-x", ("console",))
    assert await store.outbox.settle(taken, "p-x", DeliveryState.SENT)


async def test_what_is_restored_is_spoken_in_again(store: RedisStore) -> None:
    sid = await archived(store)
    await store.lifecycle.restore(sid, actor="ann", audit=(row(),))
    await store.sessions.accept(item(sid, "d2"))
    assert await status(store, sid) is Status.QUEUED


async def test_a_background_session_whose_task_is_over_is_not_restored(store: RedisStore) -> None:
    task = child(fresh())
    await store.sessions.accept(task)
    claim = await claimed(store, task.sid)
    await store.sessions.commit(claim, replace(ending(claim.state.seq, 1), take=1))
    assert await status(store, task.sid) is Status.ARCHIVED
    with pytest.raises(ArchivedError):
        await store.lifecycle.restore(task.sid, actor="ann", audit=())


# Failed ---------------------------------------------------------------------------------------------------


async def test_what_failed_is_woken_by_what_it_is_told(store: RedisStore) -> None:
    sid = await failed(store)
    await store.sessions.accept(item(sid, "d2"))
    assert await status(store, sid) is Status.QUEUED


async def test_what_somebody_works_on_has_not_failed(store: RedisStore) -> None:
    sid = await running(store)
    await store.lifecycle.fail(sid)
    assert await status(store, sid) is Status.RUNNING


# Deleted --------------------------------------------------------------------------------------------------


async def full(store: RedisStore) -> str:
    """Return a session that holds a word wherever it may hold one, its audit chain apart."""
    sid, long = fresh(), f"{HIDDEN_WORDS} " * 8_000
    await store.sessions.accept(item(sid, text=long))
    claim = await claimed(store, sid)
    turn = replace(ending(claim.state.seq, 1), take=1, events=(event(text=long), event(text=HIDDEN_WORDS)))
    await store.sessions.commit(claim, replace(turn, deliver=(answer(text=long), answer("k2", HIDDEN_WORDS))))
    await store.sessions.accept(item(sid, "d2", text=HIDDEN_WORDS))
    await store.delegation.receive(parcel(sid, SECRET))
    return sid


async def held_bytes(store: RedisStore, sid: str) -> bytes:
    """Return all that the store holds under a session's keys."""
    found = b""
    for key in await command(store, "KEYS", f"{session_keys(sid).prefix}*"):
        found += key + await command(store, "DUMP", key)
    return found


async def test_deleted_sessions_are_told_apart_from_others(store: RedisStore) -> None:
    gone, live, never = (await started(store))[0].sid, (await started(store))[0].sid, fresh()
    await store.lifecycle.delete(gone, ())
    assert await store.lifecycle.deleted((gone, live, never)) == {gone}
    assert await store.lifecycle.deleted(()) == frozenset()


async def test_nothing_of_a_deleted_session_is_left(store: RedisStore) -> None:
    sid = await full(store)
    assert await command(store, "KEYS", f"{session_keys(sid).prefix}body:*")
    await store.lifecycle.delete(sid, (row(),))
    keys = session_keys(sid)
    left = {key.decode() for key in await command(store, "KEYS", f"{keys.prefix}*")}
    assert left == {keys.state, keys.audit, keys.inputs}
    assert HIDDEN_WORDS.encode() not in await held_bytes(store, sid)
    assert await store.sessions.state(sid) is None
    assert sid not in {one async for one, _ in store.sessions.walk()}
    assert sid not in {one for one, _ in await store.index.recent(limit=1000)}
    page = await store.index.listed(SessionQuery("ann", TOP, limit=200, archived=True))
    assert sid not in {state.sid for state in page.sessions}
    assert len(await store.audit.records(sid)) == 1


async def test_what_was_told_before_is_no_new_input_after_it(store: RedisStore) -> None:
    sid = await full(store)
    await store.lifecycle.delete(sid, ())
    again = await store.sessions.accept(item(sid, "d2", text=HIDDEN_WORDS))
    assert (again.duplicate, again.status) == (True, ItemStatus.CANCELLED)
    with pytest.raises(DeletedError):
        await store.sessions.accept(item(sid, "d3"))


async def test_who_works_on_it_can_write_nothing_any_more(store: RedisStore) -> None:
    claim, written = await started(store)
    await store.lifecycle.delete(claim.sid, ())
    with pytest.raises(Exception, match="session") as met:
        await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),)))
    assert met.type.__name__ in {"ResetError", "LeaseLostError"}
    assert not await command(store, "EXISTS", session_keys(claim.sid).log)


async def rewrites(store: RedisStore) -> int:
    """Return how often the servers rewrote their files, or began to."""
    told = (await command(store, "INFO", "persistence")).decode()
    return sum(map(int, re.findall("aof_(?:rewrites|rewrite_in_progress|rewrite_scheduled):([0-9]+)", told)))


async def _more(store: RedisStore, before: int) -> bool:
    return await rewrites(store) > before


async def test_a_sweep_ends_what_a_crash_left(store: RedisStore) -> None:
    sid = await full(store)
    await store.lifecycle.delete(sid, ())
    keys = session_keys(sid)
    await command(store, "SET", keys.body("lost"), HIDDEN_WORDS)
    await command(store, "HSET", keys.state, "eg", "1")
    await command(store, "SADD", "lg:open", sid)
    before = await rewrites(store)
    await store.wake.sweep()
    assert not await command(store, "EXISTS", keys.body("lost"))
    # It may have been asked for by nobody.
    await eventually(lambda: _more(store, before))
    assert not await state_field(store, sid, "erasing")


# Turns ----------------------------------------------------------------------------------------------------


async def test_all_turns_are_kept_and_paged(store: RedisStore) -> None:
    sid = fresh()
    for number in range(1, 6):
        await store.sessions.accept(item(sid, f"d{number}"))
        claim = await claimed(store, sid)
        told = TurnCompleted(YieldReason.ERROR if number == 3 else YieldReason.COMPLETED, attempt=number)
        end = ending(claim.state.seq, number)
        events = (*end.events, NewEvent("worker", PUBLIC, told, turn=f"t{number}"))
        await store.sessions.commit(claim, replace(end, take=number, events=events))
    page = await store.lifecycle.turns(sid, limit=2)
    assert [one.id for one in page.turns] == ["t5", "t4"]
    assert page.before is not None
    rest = await store.lifecycle.turns(sid, before=page.before, limit=3)
    assert [(one.id, one.told.attempt) for one in rest.turns] == [("t3", 3), ("t2", 2), ("t1", 1)]
    assert TurnState.of(rest.turns[0].told.reason) is TurnState.ERROR
    last = rest if rest.before is None else await store.lifecycle.turns(sid, before=rest.before)
    assert last.before is None
    assert (await store.lifecycle.turns(fresh())).turns == ()
