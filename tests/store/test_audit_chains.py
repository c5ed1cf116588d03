"""Audit chains in the store: written with what they tell, and tampering shows."""

# pyright: reportPrivateUsage=false

import asyncio
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from bot.audit.anchors import ANCHORED, UNANCHORED, AnchoredChains
from bot.audit.chain import EMPTY, AnchorFile, Broken, Head, Intact, verify
from bot.core.errors import DiskError, SchemaError, StoreError
from bot.core.keys import KeySeries
from bot.sessions.approvals import ApprovalState
from bot.sessions.installation.losses import LOG_TRUNCATED
from bot.sessions.models import Write
from bot.store.calls import Arguments, ScriptAnswer
from bot.store.opening import open_store
from bot.store.records.form import pack, unpack
from bot.store.records.kinds import AUDIT_ROW
from bot.store.records.names import NAMES
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD
from tests.bot.kit import eventually
from tests.fleets import Served
from tests.store.world import (
    KEY,
    SIGNERS,
    command,
    dump,
    end_lease,
    event,
    fresh,
    keys,
    put_state,
    remembered,
    row,
    started,
    suspended,
)

pytestmark = pytest.mark.anyio
RECORDS = 5


async def chain_of_five(store: RedisStore) -> str:
    claim, written = await started(store)
    for n in range(RECORDS):
        written = await store.sessions.record(claim, Write(fresh(), written.seq, audit=(row(f"r{n}"),)))
    return claim.sid


async def check(store: RedisStore, chain: str, anchor: Head = EMPTY) -> Intact | Broken:
    return verify(
        chain,
        await store.audit.records(chain),
        claimed=await store.audit.head(chain),
        anchor=anchor,
        signers=SIGNERS,
    )


async def rewrite(store: RedisStore, key: str, records: list[bytes]) -> None:
    """Put other records into a chain, as somebody with access to the store would."""
    await command(store, "DEL", key)
    await command(store, "RPUSH", key, *records)


async def stored(store: RedisStore, key: str) -> list[bytes]:
    found: list[bytes] = await command(store, "LRANGE", key, 0, -1)
    return found


async def test_a_chain_holds(store: RedisStore) -> None:
    sid = await chain_of_five(store)
    assert (await check(store, sid)) == Intact(RECORDS, (await store.audit.head(sid))[1])
    assert [one.n for one in await store.audit.records(sid, after=2, limit=2)] == [3, 4]
    assert (await store.audit.records(sid, after=2))[0].previous == (await store.audit.records(sid))[1].hash
    assert await check(store, fresh()) == Intact(0, "")


async def test_rows_are_written_with_what_they_tell_of(store: RedisStore, other: RedisStore) -> None:
    claim, asked = await suspended(store)
    await other.approvals.resolve(
        claim.sid, (asked.id,), ApprovalState.APPROVED, actor="boss", audit=(row("yes \ud800"),)
    )
    await store.sessions.reset(claim.sid, op=fresh(), actor="ann", audit=(row("reset"), row("more")))
    assert [one.body["what"] for one in await store.audit.records(claim.sid)] == ["yes \ud800", "reset", "more"]
    assert isinstance(await check(store, claim.sid), Intact)


async def test_decisions_outside_a_session(own: RedisStore) -> None:
    await own.audit.append(())
    await own.audit.append((row("one"), row("two")))
    await own.audit.append((row("three"),))
    assert isinstance(await check(own, AUDIT), Intact)
    sid = await chain_of_five(own)
    await started(own)
    heads = [one async for one in own.audit.heads()]
    assert heads == [(AUDIT, await own.audit.head(AUDIT)), (sid, await own.audit.head(sid))]
    await command(own, "HSET", AUDIT_HEAD, "v", 3)
    before = await command(own, "DUMP", AUDIT_CHAIN)
    with pytest.raises(SchemaError):
        await own.audit.append((row(),))
    assert await command(own, "DUMP", AUDIT_CHAIN) == before


async def test_two_writers_of_one_chain(store: RedisStore, other: RedisStore) -> None:
    for n in range(6):
        await (store, other)[n % 2].audit.append((row(str(n)),))
    n, _ = await store.audit.head(AUDIT)
    assert [one.body["what"] for one in await store.audit.records(AUDIT, after=n - 6)] == list("012345")


@pytest.mark.one_server("a chain is on one server in any case")
async def test_many_writers_in_several_processes_lose_no_row(own: RedisStore) -> None:
    assert own.server is not None
    stores = [own, *[await open_store(audit_key=KEY, url=own.server.url) for _ in range(3)]]
    try:
        async with anyio.create_task_group() as tasks:
            for n, store in enumerate(stores * 16):
                tasks.start_soon(_append_some, store, n)
    finally:
        for store in stores[1:]:
            await store.close()
    told = [record.body["what"] for record in await own.audit.records(AUDIT, limit=10_000)]
    assert sorted(map(str, told)) == sorted(f"{n}.{part}" for n in range(64) for part in range(5))
    assert isinstance(await check(own, AUDIT), Intact)


async def _append_some(store: RedisStore, n: int) -> None:
    for part in range(5):
        await store.audit.append((row(f"{n}.{part}"),))


async def test_who_is_cancelled_takes_no_rows_of_others_along(own: RedisStore) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(own.audit.append, (row("first"),))
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(own.audit.append, (row("dropped"),))
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        tasks.start_soon(own.audit.append, (row("last"),))
    assert [record.body["what"] for record in await own.audit.records(AUDIT)] == ["first", "last"]


async def test_what_goes_wrong_is_told_to_each(own: RedisStore) -> None:
    failed = list[int]()

    async def write(n: int) -> None:
        try:
            await own.audit.append((row(str(n)),))
        except StoreError:
            failed.append(n)

    await command(own, "SET", AUDIT_HEAD, "no record")
    async with anyio.create_task_group() as tasks:
        for n in range(5):
            tasks.start_soon(write, n)
    assert sorted(failed) == [0, 1, 2, 3, 4]


async def test_a_stale_fence_leaves_no_audit(store: RedisStore) -> None:
    claim, written = await started(store)
    await end_lease(store, claim.sid)
    await store.sessions.claim(claim.sid, "w")
    before = await dump(store, claim.sid)
    with pytest.raises(Exception, match="another worker"):
        await store.sessions.record(claim, Write(fresh(), written.seq, events=(event(),), audit=(row(),)))
    assert await dump(store, claim.sid) == before


@pytest.mark.parametrize(
    "field, new",
    [("body", '{"what":"rX"}'), ("kind", "derision"), ("actor", "eve"), ("time", 1)],
)
async def test_a_flipped_field_shows(store: RedisStore, field: str, new: str | int) -> None:
    sid = await chain_of_five(store)
    found = await stored(store, keys(sid).audit)
    before = unpack(AUDIT_ROW, found[2])
    before.pop("version")
    assert before[field] != new
    found[2] = pack(AUDIT_ROW, {**before, field: new})
    await rewrite(store, keys(sid).audit, found)
    assert await check(store, sid) == Broken(3, "record 3 does not follow from the ones before it")


async def test_a_flipped_hash_shows(store: RedisStore) -> None:
    sid = await chain_of_five(store)
    found = await stored(store, keys(sid).audit)
    digest = (await store.audit.records(sid))[2].hash
    found[2] = found[2].replace(digest.encode(), digest[::-1].encode())
    await rewrite(store, keys(sid).audit, found)
    assert await check(store, sid) == Broken(3, "record 3 does not follow from the ones before it")


async def test_a_removed_record_shows(store: RedisStore) -> None:
    sid = await chain_of_five(store)
    found = await stored(store, keys(sid).audit)
    await rewrite(store, keys(sid).audit, found[:2] + found[3:])
    assert await check(store, sid) == Broken(3, "record 3 does not follow from the ones before it")


async def test_a_reordered_chain_shows(store: RedisStore) -> None:
    sid = await chain_of_five(store)
    one, two, *rest = await stored(store, keys(sid).audit)
    await rewrite(store, keys(sid).audit, [two, one, *rest])
    assert await check(store, sid) == Broken(1, "record 1 does not follow from the ones before it")


async def test_a_cut_end_shows_in_the_session_record(store: RedisStore) -> None:
    sid = await chain_of_five(store)
    await command(store, "RPOP", keys(sid).audit)
    assert await check(store, sid) == Broken(5, "the chain ends at 4, the session's record says 5")
    await command(store, "DEL", keys(sid).audit)
    assert await check(store, sid) == Broken(1, "the chain ends at 0, the session's record says 5")


async def test_a_cut_end_with_a_mended_record_shows_in_the_anchor(store: RedisStore, tmp_path: Path) -> None:
    sid = await chain_of_five(store)
    anchors = AnchorFile(tmp_path / "anchors", KEY)
    await asyncio.to_thread(anchors.record, {sid: await store.audit.head(sid)})
    await command(store, "RPOP", keys(sid).audit)
    await put_state(store, sid, audit_seq=4, audit_hash=(await store.audit.records(sid))[3].hash)
    assert isinstance(await check(store, sid), Intact)
    anchor = (await asyncio.to_thread(AnchorFile(tmp_path / "anchors", KEY).heads))[sid]
    assert await check(store, sid, anchor) == Broken(5, "the chain ends at 4, but 5 records were anchored")


async def test_a_foreign_chain_shows(store: RedisStore) -> None:
    sid, foreign = await chain_of_five(store), await chain_of_five(store)
    await rewrite(store, keys(sid).audit, await stored(store, keys(foreign).audit))
    n, digest = await store.audit.head(foreign)
    await put_state(store, sid, audit_seq=n, audit_hash=digest)
    assert await check(store, sid) == Broken(1, "record 1 does not follow from the ones before it")


async def test_a_chain_that_runs_away_is_given_up(store: RedisStore) -> None:
    claim, _ = await started(store)

    async def moved(audit: Arguments | None) -> ScriptAnswer:
        assert audit is not None
        return ScriptAnswer("head", {"audit_seq": audit[NAMES["seq"]] + 1, "audit_hash": b"f" * 64})

    with pytest.raises(StoreError, match="faster"):
        await store._shared.chaining(claim.sid, (row(),), moved)


async def test_heads_of_very_many_sessions_are_not_all_remembered(store: RedisStore) -> None:
    for n in range(5000):
        store._shared.saw_head(str(n), (n, ""))
    assert len(store._shared.heads) == 4096
    assert "0" not in store._shared.heads


async def test_anchoring_goes_on_when_the_disk_does_not_take_it(
    own: RedisStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await own.audit.append((row(),))
    chains = AnchoredChains(own.audit, tmp_path / "anchors", KEY)
    (tmp_path / "anchors").mkdir()

    async def told(line: str) -> bool:
        return line in caplog.messages

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chains.anchoring, 0.02)
        await eventually(partial(told, UNANCHORED))
        await anyio.sleep(0.2)
        (tmp_path / "anchors").rmdir()
        await eventually(partial(told, ANCHORED))
        tasks.cancel_scope.cancel()
    assert [caplog.messages.count(line) for line in (UNANCHORED, ANCHORED)] == [1, 1]
    assert (await chains.anchored())["audit"][0] == 1


async def test_a_process_anchors_what_it_wrote_and_a_walk_what_others_left(server: Served, tmp_path: Path) -> None:
    """So that what is anchored costs the same however many sessions there are."""
    other = await open_store(audit_key=KEY, url=server.url)
    watching = await open_store(audit_key=KEY, url=server.url)
    theirs, mine = await chain_of_five(other), await chain_of_five(watching)
    chains = AnchoredChains(watching.audit, tmp_path / "anchors", KEY)
    await chains.anchor()
    assert await chains.anchored() == {mine: await watching.audit.head(mine)}
    assert not watching.audit.moved()

    async def all_are_there() -> bool:
        return {theirs, mine} <= (await chains.anchored()).keys()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chains.walking, 0.02)
        await eventually(all_are_there)
        tasks.cancel_scope.cancel()
    await other.close()
    await watching.close()


async def test_a_chain_that_ends_before_its_anchor_tells_what_its_store_lost(own: RedisStore, tmp_path: Path) -> None:
    """The processes that wrote the lost rows are gone: the anchors alone know of them."""
    claim, written = await started(own)
    mine = claim.sid
    for n in range(RECORDS):
        written = await own.sessions.record(claim, Write(fresh(), written.seq, audit=(row(f"r{n}"),)))
    back = await remembered(own, mine)
    await own.sessions.record(claim, Write(fresh(), written.seq, audit=(row("lost"), row("lost"))))
    await AnchoredChains(own.audit, tmp_path / "anchors", KEY).anchor()
    await back()
    other = await open_store(audit_key=KEY, url=own.server.url if own.server else "")
    chains = AnchoredChains(other.audit, tmp_path / "anchors", KEY, other.losses)
    assert isinstance(await chains.verify(mine), Broken)

    async def told() -> bool:
        return (await chains.anchored())[mine][0] == RECORDS + 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chains.walking, 0.02)
        await eventually(told)
        tasks.cancel_scope.cancel()
    assert (await other.audit.records(mine))[-1].kind == LOG_TRUNCATED
    found = await chains.verify(mine)
    assert isinstance(found, Intact)
    assert found.lost == RECORDS + 2
    assert [loss.sid for loss in other.losses.taken()] == [mine]
    await other.close()


async def test_what_could_not_be_anchored_is_anchored_later(own: RedisStore, tmp_path: Path) -> None:
    mine = await chain_of_five(own)
    chains = AnchoredChains(own.audit, tmp_path / "anchors", KEY)
    (tmp_path / "anchors").mkdir()
    with pytest.raises(DiskError):
        await chains.anchor()
    (tmp_path / "anchors").rmdir()
    await chains.anchor()
    assert mine in await chains.anchored()


async def test_processes_that_write_without_a_pause_leave_others_their_turn(own_url: str, tmp_path: Path) -> None:
    """Each write follows the head of the chain, so a process that never rests would move it before any other."""
    ring = await asyncio.to_thread(KeySeries.read, tmp_path, "audit")
    here, there = [await open_store(audit_key=ring, url=own_url) for _ in range(2)]
    ended = asyncio.Event()

    async def writing() -> None:
        while not ended.is_set():
            await there.audit.append((row("without a pause"),))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writing())
        for n in range(60):
            await here.audit.append((row(f"r{n}"),))
            await asyncio.sleep(0.01)
        ended.set()
    told = [one.body["what"] for one in await here.audit.records(AUDIT)]
    assert [what for what in told if what != "without a pause"] == [f"r{n}" for n in range(60)]
    await here.close()
    await there.close()
