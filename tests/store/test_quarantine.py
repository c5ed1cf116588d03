"""Sessions in quarantine: a growing pause, one audit row, and no other session that notices."""

# pyright: reportPrivateUsage=false

import pytest

from bot.core.errors import SchemaError, WornError
from bot.sessions.approvals import ApprovalState, QuestionCopy
from bot.sessions.audit import AuditRow
from bot.sessions.models import Doing, SessionQuery
from bot.store.approvals import copy_member
from bot.store.coordination import FIRST_MS, LONGEST_MS
from bot.store.records.kinds import QUARANTINED
from bot.store.redis_store import RedisStore
from bot.store.schema import COPIES, LETTERS, QUARANTINE
from policy.labels import parse
from tests.store.world import (
    TOP,
    alter,
    claimed,
    command,
    end_lease,
    ending,
    fresh,
    item,
    keys,
    opening,
    put_state,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio

ROW = (AuditRow("quarantined", "work", {"session": "s"}),)
DAMAGES = [
    ("version", "99"),
    ("version", "x"),
    ("taint", "NOSUCH"),
    ("inbox_label", "CONFIDENTIAL{"),
    ("lineage", "{"),
    ("turn", "x"),
    ("seq", "x"),
    ("audit_seq", "x"),
    ("status", "nothing"),
    ("undelivered", "x"),
]


async def damaged(store: RedisStore, field: str, value: str) -> str:
    """Return a session with a record that no program wrote."""
    claim, _ = await started(store)
    await put_state(store, claim.sid, **{field: value})
    return claim.sid


async def pass_pause(store: RedisStore, sid: str) -> None:
    field = f"{sid}/work"
    await alter(store, QUARANTINED, QUARANTINE, field, lapses=1)


async def rows(store: RedisStore) -> int:
    return (await store.audit.head("audit"))[0]


async def test_the_pause_grows_and_one_row_tells_of_it(own: RedisStore) -> None:
    rests = list[int]()
    for number in range(14):
        one, new = await own.quarantine.add("s", Doing.WORK, error="SchemaError", where="codec.py:1", audit=ROW)
        assert (new, one.tries) == (number == 0, number + 1)
        rests.append(one.rest)
        await pass_pause(own, "s")
    assert rests == [min(FIRST_MS * 2**number, LONGEST_MS) for number in range(14)]
    assert await rows(own) == 1


async def test_within_a_pause_a_second_process_changes_nothing(own: RedisStore) -> None:
    first, _ = await own.quarantine.add("s", Doing.WORK, error="SchemaError", where="codec.py:1", audit=ROW)
    second, new = await own.quarantine.add("s", Doing.WORK, error="KeyError", where="codec.py:2", audit=ROW)
    assert (second.tries, second.error, second.since, new) == (1, "SchemaError", first.since, False)
    assert await rows(own) == 1


async def test_what_is_let_out_is_told_of_once_and_begins_anew(own: RedisStore) -> None:
    await own.quarantine.add("s", Doing.WORK, error="SchemaError", where="codec.py:1", audit=ROW)
    await own.quarantine.add("s", Doing.INTAKE, error="SchemaError", where="codec.py:1", audit=ROW)
    assert {one.doing for one in await own.quarantine.quarantined()} == {Doing.WORK, Doing.INTAKE}
    assert await own.quarantine.unquarantine("s", Doing.WORK, ROW)
    assert not await own.quarantine.unquarantine("s", Doing.WORK, ROW)
    assert [one.doing for one in await own.quarantine.quarantined()] == [Doing.INTAKE]
    assert await own.wake.ready(wait=0) == ("s",)
    one, new = await own.quarantine.add("s", Doing.WORK, error="SchemaError", where="codec.py:1", audit=ROW)
    assert (one.tries, new, await rows(own)) == (1, True, 4)


async def test_a_record_of_quarantine_that_cannot_be_read_hides_no_other(own: RedisStore) -> None:
    await own.quarantine.add("s \ud800/%", Doing.WORK, error="SchemaError", where="codec.py:1", audit=ROW)
    await command(own, "HSET", QUARANTINE, "t/work", "{", "u/nothing", "{}", "w/work", "[]")
    assert [one.sid for one in await own.quarantine.quarantined()] == ["s \ud800/%"]


async def test_a_session_that_ends_every_worker_is_not_taken_a_fourth_time(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    for _ in range(3):
        assert await store.sessions.claim(sid, fresh(), most=3) is not None
        await end_lease(store, sid)
    with pytest.raises(WornError):
        await store.sessions.claim(sid, fresh(), most=3)
    # A command of a person may take it, and once its pause is over it is tried again.
    assert await store.sessions.claim(sid, fresh(), idle=True) is not None
    await end_lease(store, sid)
    assert await store.sessions.claim(sid, fresh(), most=4) is not None
    await end_lease(store, sid)
    with pytest.raises(WornError):
        await store.sessions.claim(sid, fresh(), most=4)


@pytest.mark.parametrize("progress", ["written", "released", "reset"])
async def test_a_worker_that_gets_on_with_it_is_not_counted(store: RedisStore, progress: str) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    for _ in range(2):
        assert await store.sessions.claim(sid, fresh(), most=3) is not None
        await end_lease(store, sid)
    claim = await claimed(store, sid)
    match progress:
        case "written":
            await store.sessions.commit(claim, ending((await store.sessions.record(claim, opening(claim))).seq, 1))
        case "released":
            await store.sessions.release(claim)
        case _:
            await store.sessions.reset(sid, op=fresh(), actor="ann", audit=())
    await store.sessions.accept(item(sid, "d2"))
    for _ in range(3):
        assert await store.sessions.claim(sid, fresh(), most=3) is not None
        await end_lease(store, sid)


@pytest.mark.parametrize("field, value", DAMAGES)
async def test_no_listing_and_no_sweep_notices_a_session_that_cannot_be_read(
    own: RedisStore, field: str, value: str
) -> None:
    bad = await damaged(own, field, value)
    asking, asked = await suspended(own)
    await own.sessions.accept(item(fresh(), "d"))
    open_sid = fresh()
    await own.sessions.accept(item(open_sid))
    for sid in (bad, asking.sid):
        await command(own, "SADD", LETTERS, sid)
        await command(own, "SADD", COPIES, copy_member(QuestionCopy(sid, "q", "k")))
    await command(own, "HSET", keys(bad).approvals, "a", "x")
    found = await own.wake.sweep()
    assert open_sid in found
    assert [approval.id for _, approval in await own.approvals.waiting()] == [asked.id]
    assert asked.state is ApprovalState.PENDING
    assert await own.outbox.dead() == ()
    assert {copy.sid for copy in await own.question_copies.copies()} == {asking.sid}
    page = await own.index.listed(SessionQuery("ann", TOP))
    assert open_sid in {state.sid for state in page.sessions}
    assert {asking.sid, open_sid} <= {state.sid async for state in own.sessions.states()}
    assert {bad, asking.sid, open_sid} <= {sid async for sid, _ in own.sessions.walk()}
    assert {chain async for chain, _ in own.audit.heads()} <= {bad, asking.sid, open_sid, "audit"}
    await own.sessions.accept(item(open_sid, "d2", parse("INTERNAL")))


@pytest.mark.parametrize("field, value", [("lineage", "{"), ("turn", "x")])
async def test_a_script_that_stumbles_says_that_a_record_cannot_be_read(
    own: RedisStore, field: str, value: str
) -> None:
    sid = await damaged(own, field, value)
    await end_lease(own, sid)
    with pytest.raises(SchemaError):
        await own.sessions.claim(sid, fresh(), idle=True)
    await command(own, "DEL", keys(sid).inbox)
    await command(own, "SET", keys(sid).inbox, "x")
    with pytest.raises(SchemaError):
        await own.sessions.accept(item(sid, "d9"))
