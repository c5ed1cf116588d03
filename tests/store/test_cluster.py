"""A store that is a Cluster: slots that move, hints that follow, and what doctor and the rights of a user come to."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from redis.crc import key_slot

from bot.core.errors import SchemaError, StoreError, StoreRefusedError
from bot.sessions.budgets import Budgets, Lack, Shortage, Spender, Whose
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.schema import GRANTS, OPEN, READY, SPENDERS
from policy.labels import PUBLIC
from tests.fleets import Fleet, Kind, ask, wait_until
from tests.harness import running
from tests.store.world import KEY, answer, claimed, command, ending, fresh, item, keys, started

pytestmark = [pytest.mark.anyio, pytest.mark.several_servers(Kind.CLUSTER)]
HURRIED = StoreOptions(timeout=4)


def _slot_of(sid: str) -> int:
    return int(key_slot(keys(sid).state.encode()))


@dataclass(frozen=True)
class _Node:
    """A primary, and what the Cluster calls it."""

    port: int
    name: str


def _ends(fleet: Fleet, slot: int) -> tuple[_Node, _Node]:
    """Return the server that has a slot, and another one."""
    nodes = [_Node(port, ask(port, "CLUSTER", "MYID").split(b"\r\n")[1].decode()) for port in fleet.primaries]
    source = next(one for one in nodes if ask(one.port, "CLUSTER", "COUNTKEYSINSLOT", str(slot)) != b":0\r\n")
    return source, next(one for one in nodes if one != source)


def _open(source: _Node, target: _Node, slot: int) -> None:
    """Begin to move a slot."""
    assert ask(target.port, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.name) == b"+OK\r\n"
    assert ask(source.port, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", target.name) == b"+OK\r\n"


def _move(source: _Node, target: _Node, slot: int) -> None:
    """Move the keys of a slot."""
    found = ask(source.port, "CLUSTER", "GETKEYSINSLOT", str(slot), "100").split(b"\r\n")[2::2]
    moved = ("MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "KEYS", *map(bytes.decode, found))
    assert ask(source.port, *moved) == b"+OK\r\n"


def _close(source: _Node, target: _Node, slot: int) -> None:
    """End the move of a slot."""
    for port in (target.port, source.port):
        assert ask(port, "CLUSTER", "SETSLOT", str(slot), "NODE", target.name) == b"+OK\r\n"


async def test_a_session_is_worked_while_its_slot_moves(store: RedisStore, fleet: Fleet) -> None:
    """A read finds what has moved already; a script, which needs all keys on one side, waits for the move to end."""
    hurried = await open_store(audit_key=KEY, url=fleet.url, options=HURRIED)
    claim, written = await started(store)
    slot = _slot_of(claim.sid)
    source, target = _ends(fleet, slot)
    _open(source, target, slot)
    _move(source, target, slot)
    state = await hurried.sessions.state(claim.sid)
    assert state is not None
    assert state.seq == written.seq
    with pytest.raises(StoreRefusedError, match="moving slots"):
        await hurried.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))

    async def close() -> None:
        await asyncio.sleep(0.2)
        await asyncio.to_thread(_close, source, target, slot)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        written = await store.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))
    # Who knows the old place is sent on.
    assert (await hurried.sessions.accept(item(claim.sid, "d2"))).position == 2
    again = await claimed(hurried, claim.sid)
    assert again.state.seq == written.seq
    assert len(await store.outbox.deliveries(claim.sid)) == 1
    await hurried.close()
    # Back, so that later tests find the servers as before.
    _open(target, source, slot)
    _move(target, source, slot)
    _close(target, source, slot)
    wait_until(lambda: b"cluster_state:ok" in ask(source.port, "CLUSTER", "INFO"))


async def test_all_of_a_days_budget_can_be_used_by_people_on_all_servers(store: RedisStore) -> None:
    """Each sets 30 of 100 aside and uses 3: as long as there are 30, what others left of their portions comes back."""
    await command(store, "UNLINK", GRANTS)
    await command(store, "UNLINK", SPENDERS)
    limits, people = Budgets(all=100), [Spender(fresh(), "", PUBLIC) for _ in range(30)]
    answers = list[Shortage | None]()
    for one in people:
        name = fresh()
        answers.append(await store.budgets.reserve_tokens(name, one, 30, budgets=limits, life=60_000))
        if answers[-1] is None:
            await store.budgets.settle_tokens(name, one, 3, complete=True)
    assert answers == [None] * 24 + [Shortage(Whose.ALL, Lack.USED)] * 6
    used = {one.name: one.tokens for one in await store.budgets.spent_today()}
    assert [used.get(one.person, 0) for one in people] == [3] * 24 + [0] * 6


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


async def test_a_server_that_refuses_a_hint_does_not_undo_what_the_script_did(fleet: Fleet) -> None:
    store = await open_store(audit_key=KEY, url=fleet.url, options=HURRIED)
    await store.sessions.accept(item(fresh()))
    holder = _ends(fleet, int(key_slot(OPEN.encode())))[0].port
    sid = ""
    while not sid:
        # A session of which another server has the record.
        await store.sessions.accept(item(name := fresh()))
        sid = name if _ends(fleet, _slot_of(name))[0].port != holder else ""
    ask(holder, "CONFIG", "SET", "min-replicas-to-write", "5")
    try:
        accepted = await store.sessions.accept(item(sid, "d2"))
    finally:
        ask(holder, "CONFIG", "SET", "min-replicas-to-write", "0")
        await store.close()
    assert accepted.position == 2


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
    listed = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text()
    (words,) = re.findall(r"^user lockgate on >PASSWORD (.+)$", listed, re.MULTILINE)
    more = re.findall(r"^On a Cluster it needs `(\+.+)` too", listed, re.MULTILINE)
    await command(own, "ACL", "SETUSER", "lockgate", "on", ">right", *words.split(), *more)
    # Other tests of these servers have users without rights.
    await command(own, "ACL", "LOG", "RESET")
    url = fleet.url.replace("://", "://lockgate:right@")
    async with running(tmp_path, environment={"LOCKGATE_STORE_URL": url}) as owner:
        assert "You said: hello" in await owner.say("hello")
        assert await owner.app.store.complaints() == []
        await owner.app.store.wake.sweep()
    assert await command(own, "ACL", "LOG") == []
    with pytest.raises(StoreRefusedError, match="refused the password"):
        await open_store(audit_key=KEY, url=url.replace("right", "wrong"))
    await command(own, "ACL", "DELUSER", "lockgate")


async def _say(url: str) -> None:
    """Accept messages of many sessions, at one node of a Cluster."""
    one = await open_store(audit_key=KEY, url=url)
    try:
        for _ in range(20):
            await one.sessions.accept(item(fresh()))
    finally:
        await one.close()


async def test_an_address_of_another_kind_is_told_as_that(fleet: Fleet) -> None:
    with pytest.raises(StoreRefusedError, match="the store is a Cluster") as caught:
        await _say(f"redis://127.0.0.1:{fleet.primaries[0]}")
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
    with pytest.raises(StoreRefusedError, match="is no Cluster") as caught:
        await open_store(audit_key=KEY, url=f"redis+cluster://{hosts.split(',')[0]}", options=HURRIED)
    assert "redis+sentinel://" in caught.value.next_step
    with pytest.raises(StoreRefusedError, match="are no Sentinels") as caught:
        await open_store(audit_key=KEY, url=f"redis+sentinel://127.0.0.1:{fleet.primaries[0]}/main", options=HURRIED)
    assert "redis+cluster://" in caught.value.next_step
    with pytest.raises(StoreError, match="Sentinels do not answer"):
        await open_store(audit_key=KEY, url="redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", options=HURRIED)
    with pytest.raises(StoreRefusedError, match="has no password"):
        await open_store(audit_key=KEY, url=f"redis://:secret@127.0.0.1:{fleet.primaries[0]}", options=HURRIED)


@pytest.mark.several_servers(Kind.SENTINEL)
async def test_sentinels_may_have_users_of_their_own(fleet: Fleet) -> None:
    listed = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text()
    (words,) = re.findall(r"^`(.+ \+sentinel\|masters)`", listed, re.MULTILINE)
    for host in fleet.url.partition("://")[2].partition("/")[0].split(","):
        ask(int(host.rpartition(":")[2]), "ACL", "SETUSER", "watcher", "reset", "on", ">right", *words.split())
    url = f"{fleet.url}?sentinel_username=watcher&sentinel_password="
    store = await open_store(audit_key=KEY, url=f"{url}right")
    await store.sessions.accept(item(fresh()))
    await store.close()
    with pytest.raises(StoreRefusedError, match="the Sentinels refused the password") as caught:
        await open_store(audit_key=KEY, url=f"{url}wrong")
    assert "wrong" not in f"{caught.value}{caught.value.next_step}"
