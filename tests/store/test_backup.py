"""Copies of the store's keys: whole, of one moment, and harmless when they come back."""

# pyright: reportPrivateUsage=false

import asyncio

import pytest

from bot.audit.chain import Intact
from bot.core.errors import StoreRefusedError
from bot.sessions.deliveries import DeliveryState
from bot.sessions.models import Status, Write
from bot.sessions.ports.backups import CopiedUnit
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import (
    AUDIT,
    AUDIT_HEAD,
    LETTERS,
    OPEN,
    PAIRINGS,
    READY_POOLS,
    RESTORING,
    offer_key,
    session_keys,
)
from bot.store.servers.connection import WALKED
from tests.store.test_audit_chains import check
from tests.store.world import KEY, answer, claimed, command, ending, event, fresh, item, keys, offered, row, started

pytestmark = pytest.mark.anyio

KINDS = {"string": "GET", "list": "LRANGE", "set": "SMEMBERS", "zset": "ZRANGE", "hash": "HGETALL", "stream": "XRANGE"}
RANGES = {"list": (0, -1), "zset": (0, -1, "WITHSCORES"), "stream": ("-", "+")}
MANY = 210
"""More values than are read at once."""


async def everything(store: RedisStore) -> dict[bytes, object]:
    """Return all lasting keys with their values and expiries."""
    connection, cursor, found = store._shared.connection, b"", dict[bytes, object]()
    while cursor != WALKED:
        cursor, names = await connection.walk(cursor or WALKED, "lg:*", 1000)
        for name in names:
            kind = (await command(store, "TYPE", name)).decode()
            read = await command(store, KINDS[kind], name, *RANGES.get(kind, ()))
            value = sorted(read[i : i + 2] for i in range(0, len(read), 2)) if kind == "hash" else read
            value = sorted(read) if kind == "set" else value
            found[name] = (value, await command(store, "PEXPIRETIME", name))
    return found


async def copied(store: RedisStore) -> list[CopiedUnit]:
    return [unit async for unit in store.backups.copies()]


async def put_back(store: RedisStore, units: list[CopiedUnit]) -> None:
    await store.backups.begin()
    await store.backups.clear()
    for unit in units:
        # As after a lost reply: nothing comes twice of it.
        await store.backups.put(unit)
        await store.backups.put(unit)


async def test_all_keys_come_back_as_they_were(own: RedisStore) -> None:
    claim, written = await started(own)
    large = "x" * 40_000
    change = Write(
        fresh(),
        written.seq,
        events=(event(text=large), *(event() for _ in range(MANY))),
        audit=tuple(row(f"r{n}") for n in range(MANY)),
    )
    written = await own.sessions.record(claim, change)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(), answer("k2", address="session::x:"))))
    await own.audit.append(tuple(row(f"o{n}") for n in range(MANY)))
    await own.vault((bytes(32),)).put("token", b"value", 60)
    await own.counts.count("told/ann", 60_000)
    await own.observed.forget(claim.sid)
    # These may have been used since.
    await own.access.ask_pairing("slack::U1", "slack", "", "digest")
    once = offered(fresh())
    await own.alternatives.make_offer(once, 60_000)
    hints = {
        b"lg:ready",
        READY_POOLS.encode(),
        b"lg:open",
        b"lg:recent",
        PAIRINGS.encode(),
        offer_key(once.code).encode(),
    }
    before = {
        name: value
        for name, value in (await everything(own)).items()
        if name not in hints and not name.startswith((b"lg:list:", b"lg:turned:")) and b":op:" not in name
    }
    units = await copied(own)
    await put_back(own, units)
    after = await everything(own)
    assert not hints & after.keys()
    assert after.pop(RESTORING.encode())
    assert after.keys() == before.keys()
    assert after == before
    ends = await command(own, "HPEXPIRETIME", "lg:{vault}:values", "FIELDS", 1, "token")
    assert ends[0] > 0
    await own.backups.finish()
    assert isinstance(await check(own, claim.sid), Intact)
    assert isinstance(await check(own, AUDIT), Intact)
    read = await own.sessions.events(claim.sid, limit=10_000)
    assert len(read) > MANY
    assert any(large in str(one.body) for one in read)


async def test_a_short_session_is_copied_in_one_exchange(own: RedisStore) -> None:
    claim, written = await started(own)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    theirs = session_keys(claim.sid).prefix.encode()
    units = [unit for unit in await copied(own) if any(key.name.startswith(theirs) for key in unit.keys)]
    assert [unit.sid for unit in units] == [claim.sid]


async def test_nothing_goes_on_by_itself_and_no_text_is_sent_twice(own: RedisStore) -> None:
    claim, written = await started(own)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer("mine"),)))
    sending, written = await started(own)
    await own.sessions.accept(item(sending.sid, "d2"))
    await own.sessions.record(sending, Write(fresh(), written.seq, events=(event(),)))
    units = await copied(own)
    await put_back(own, units)
    told = await own.backups.rest(claim.sid)
    assert (told.open, told.waiting, told.doubtful) == (False, 0, 1)
    again = await own.backups.rest(sending.sid)
    assert (again.open, again.waiting, again.doubtful) == (True, 1, 0)
    await own.backups.finish()
    (delivery,) = await own.outbox.take(claim.sid, "me", ("console",))
    assert delivery.state is DeliveryState.AMBIGUOUS
    assert await own.outbox.take(claim.sid, "you", ("console",)) == ()
    assert [one.key for _, one in await own.outbox.dead()] == ["mine"]
    # No lease is alive, so another process has it at once.
    assert (await claimed(own, sending.sid, owner="somebody")).sid == sending.sid
    state = await own.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.IDLE
    members = {*await command(own, "SMEMBERS", OPEN), *await command(own, "SMEMBERS", LETTERS)}
    assert {claim.sid.encode(), sending.sid.encode()} <= members


async def test_each_session_is_of_one_moment_while_it_is_written(own: RedisStore) -> None:
    claims = [await started(own) for _ in range(3)]
    ended = asyncio.Event()

    async def writing() -> None:
        seqs = [written.seq for _, written in claims]
        while not ended.is_set():
            for place, (claim, _) in enumerate(claims):
                change = Write(fresh(), seqs[place], events=(event(),), audit=(row(fresh()),))
                seqs[place] = (await own.sessions.record(claim, change)).seq
            await own.audit.append((row(fresh()),))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writing())
        await asyncio.sleep(0.05)
        units = await copied(own)
        ended.set()
    deleted = claims[0][0].sid
    await put_back(own, units)
    await own.backups.finish()
    for chain in (*(claim.sid for claim, _ in claims), AUDIT):
        assert isinstance(await check(own, chain), Intact)
    state = await own.sessions.state(deleted)
    assert state is not None
    assert len(await own.sessions.events(deleted, limit=10_000)) == state.seq


async def test_what_is_deleted_while_it_is_copied_does_not_come_back(own: RedisStore) -> None:
    claim, written = await started(own)
    body = "x" * 40_000
    written = await own.sessions.record(claim, Write(fresh(), written.seq, events=(event(text=body),)))
    await own.sessions.commit(claim, ending(written.seq, 1))
    await own.audit.append((row(),))
    units = list[CopiedUnit]()
    async for unit in own.backups.copies():
        units.append(unit)
        # Sessions are copied before these keys, and bodies after them.
        if any(key.name == AUDIT_HEAD.encode() for key in unit.keys):
            await own.lifecycle.delete(claim.sid, audit=(row("deleted"),))
    await put_back(own, units)
    await own.backups.rest(claim.sid)
    await own.backups.finish()
    holder = await own.lifecycle.holder(claim.sid)
    assert holder is not None
    assert holder.status is Status.DELETED
    assert not any(body in str(key.values) for unit in units for key in unit.keys)
    assert await command(own, "EXISTS", keys(claim.sid).log) == 0


async def test_no_process_starts_on_half_a_restore(own: RedisStore, own_url: str) -> None:
    assert await own.backups.empty()
    await own.backups.begin()
    assert await own.backups.empty()
    with pytest.raises(StoreRefusedError, match="a restore into this store has not ended") as caught:
        await open_store(audit_key=KEY, url=own_url)
    assert "--replace" in caught.value.next_step
    other = await open_store(audit_key=KEY, url=own_url, restoring=True)
    assert await other.backups.others()
    await other.backups.finish()
    await other.close()
    await (await open_store(audit_key=KEY, url=own_url)).close()
    await own.audit.append((row(),))
    assert not await own.backups.empty()
