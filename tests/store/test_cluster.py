"""A store that is a Cluster: slots that move, hints that follow, and what doctor and the rights of a user come to."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.crc import key_slot

from bot.core.errors import SchemaError, StoreError, StoreRefusedError
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import OPEN, READY
from tests.fleets import Fleet, Kind, ask, wait_until
from tests.harness import running
from tests.store.world import KEY, answer, claimed, command, ending, fresh, item, keys, opening, started

pytestmark = [pytest.mark.anyio, pytest.mark.several_servers(Kind.CLUSTER)]
HURRIED = StoreOptions(timeout=0.4)


def _slot_of(sid: str) -> int:
    slot: Callable[[bytes], int] = key_slot
    return slot(keys(sid).state.encode())


def _ends(fleet: Fleet, slot: int) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return ports and names of the server that has a slot, and of another one."""
    names = {port: ask(port, "CLUSTER", "MYID").split(b"\r\n")[1].decode() for port in fleet.primaries}
    source = next(port for port in names if not ask(port, "CLUSTER", "GETKEYSINSLOT", str(slot), "1") == b"*0\r\n")
    target = next(port for port in names if port != source)
    return (source, names[source]), (target, names[target])


def _move(source: int, target: int, slot: int) -> None:
    """Move the keys of a slot."""
    while found := ask(source, "CLUSTER", "GETKEYSINSLOT", str(slot), "100").split(b"\r\n")[2::2]:
        moved = ("MIGRATE", "127.0.0.1", str(target), "", "0", "5000", "KEYS", *(key.decode() for key in found))
        assert ask(source, *moved).startswith((b"+OK", b"+NOKEY"))


async def test_a_session_is_worked_while_its_slot_moves(store: RedisStore, fleet: Fleet) -> None:
    """Before the move, while a slot is open on both sides, and when it has moved; each at once or after some tries."""
    claim, written = await started(store)
    sid, slot = claim.sid, _slot_of(claim.sid)
    (source, from_name), (target, to_name) = _ends(fleet, slot)
    assert ask(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", from_name) == b"+OK\r\n"
    assert ask(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", to_name) == b"+OK\r\n"
    # All its keys have moved: the source sends who asks to the target, with leave to ask there.
    _move(source, target, slot)
    written = await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    assert (await store.sessions.accept(item(sid, "d2"))).position == 2
    for port, _ in ((target, 0), (source, 0)):
        assert ask(port, "CLUSTER", "SETSLOT", str(slot), "NODE", to_name) == b"+OK\r\n"
    again = await claimed(store, sid)
    assert again.state.seq == written.seq
    await store.sessions.record(again, opening(again, 2, "d2"))
    assert len(await store.outbox.deliveries(sid)) == 1
    # Back, so that the servers of later tests are as before.
    assert ask(source, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", to_name) == b"+OK\r\n"
    assert ask(target, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", from_name) == b"+OK\r\n"
    _move(target, source, slot)
    for port in (source, target):
        assert ask(port, "CLUSTER", "SETSLOT", str(slot), "NODE", from_name) == b"+OK\r\n"
    wait_until(lambda: b"cluster_state:ok" in ask(source, "CLUSTER", "INFO"))


async def test_keys_on_both_sides_of_a_move_are_waited_for(fleet: Fleet) -> None:
    store = await open_store(audit_key=KEY, url=fleet.url, options=HURRIED)
    claim, written = await started(store)
    slot = _slot_of(claim.sid)
    (source, from_name), (target, to_name) = _ends(fleet, slot)
    assert ask(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", from_name) == b"+OK\r\n"
    assert ask(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", to_name) == b"+OK\r\n"
    moved = ("MIGRATE", "127.0.0.1", str(target), keys(claim.sid).log, "0", "5000")
    assert ask(source, *moved) == b"+OK\r\n"
    with pytest.raises(StoreRefusedError, match="moving slots"):
        await store.sessions.commit(claim, ending(written.seq, 1))
    back = ("MIGRATE", "127.0.0.1", str(source), keys(claim.sid).log, "0", "5000")
    assert ask(target, "ASKING") == b"+OK\r\n"
    for port in (source, target):
        assert ask(port, "CLUSTER", "SETSLOT", str(slot), "STABLE") == b"+OK\r\n"
    ask(target, *back)
    await store.close()


async def test_no_hint_runs_ahead_of_a_script_that_is_refused(store: RedisStore) -> None:
    sid = fresh()
    await store.sessions.accept(item(sid))
    await command(store, "HSET", keys(sid).state, "v", 99)
    await command(store, "ZREM", READY, sid)
    await command(store, "SREM", OPEN, sid)
    with pytest.raises(SchemaError):
        await store.sessions.accept(item(sid, "d2"))
    assert await command(store, "ZSCORE", READY, sid) is None
    assert not await command(store, "SISMEMBER", OPEN, sid)


async def test_what_is_wrong_with_one_of_the_servers_is_told_with_its_name(store: RedisStore, fleet: Fleet) -> None:
    unfit = fleet.primaries[1]
    ask(unfit, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert [str(one).partition(" (")[0] for one in await store.complaints()] == [
        f"the store's server `127.0.0.1:{unfit}` evicts records"
    ]
    with pytest.raises(StoreRefusedError, match="evicts"):
        await open_store(audit_key=KEY, url=fleet.url)
    ask(unfit, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    # Each is proved by a script of its own.
    ask(unfit, "CONFIG", "SET", "maxmemory", "1")
    assert ["memory limit" in str(one) for one in await store.complaints()] == [True]
    ask(unfit, "CONFIG", "SET", "maxmemory", "0")
    assert await store.complaints() == []


async def test_the_rights_that_the_documents_list_are_enough(own: RedisStore, fleet: Fleet, tmp_path: Path) -> None:
    listed = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    (words,) = re.findall(r"^user lockgate on >PASSWORD (.+)$", listed, re.MULTILINE)
    more = re.findall(r"^On a Cluster it needs `(\+.+)` too", listed, re.MULTILINE)
    await command(own, "ACL", "SETUSER", "lockgate", "on", ">right", *words.split(), *more)
    url = fleet.url.replace("://", "://lockgate:right@")
    async with running(tmp_path, environment={"LOCKGATE_STORE_URL": url}) as owner:
        assert "You said: hello" in await owner.say("hello")
        assert await owner.app.store.complaints() == []
        await owner.app.store.wake.sweep()
    assert await command(own, "ACL", "LOG") == []
    with pytest.raises(StoreRefusedError, match="refused the password"):
        await open_store(audit_key=KEY, url=url.replace("right", "wrong"))
    await command(own, "ACL", "DELUSER", "lockgate")


async def test_an_address_of_another_kind_is_told_as_that(store: RedisStore, fleet: Fleet) -> None:
    for port in fleet.primaries:
        with pytest.raises(StoreRefusedError, match="the store is a Cluster") as caught:
            one = await open_store(audit_key=KEY, url=f"redis://127.0.0.1:{port}")
            try:
                for _ in range(20):
                    await one.sessions.accept(item(fresh()))
            finally:
                await one.close()
        assert "redis+cluster://" in caught.value.next_step
    with pytest.raises(StoreError, match="does not answer"):
        await open_store(audit_key=KEY, url="redis+cluster://127.0.0.1:1", options=HURRIED)


@pytest.mark.several_servers(Kind.SENTINEL)
async def test_what_is_no_service_and_what_is_a_sentinel_are_told_as_that(fleet: Fleet) -> None:
    with pytest.raises(StoreError, match="no Sentinel knows a primary"):
        await open_store(audit_key=KEY, url=fleet.url.replace("/main", "/other"), options=HURRIED)
    hosts = fleet.url.partition("://")[2].partition("/")[0]
    with pytest.raises(StoreRefusedError, match="names a Sentinel") as caught:
        await open_store(audit_key=KEY, url=f"redis://{hosts.split(',')[0]}")
    assert "redis+sentinel://" in caught.value.next_step
    with pytest.raises(StoreRefusedError, match="is no Cluster"):
        await open_store(audit_key=KEY, url=f"redis+cluster://127.0.0.1:{fleet.primaries[0]}", options=HURRIED)
