"""A store that is gone, full, read-only, locked or unfit: one clear sentence, and nothing is lost."""

# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.sessions.values import Status, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.supervisor import Supervisor
from tests.store.world import KEY, answer, command, dump, ending, event, fresh, item, kill, pid_of, row, started

pytestmark = pytest.mark.anyio
HURRIED = StoreOptions(timeout=0.3)


@pytest.fixture
async def guest(own: RedisStore) -> AsyncIterator[RedisStore]:
    """A store at an address, as with `store.url`: nobody restarts its server."""
    assert own.server is not None
    store = await open_store(audit_key=KEY, url=own.server.url, options=HURRIED)
    yield store
    await store.close()


async def test_a_store_that_is_gone(own: RedisStore, guest: RedisStore) -> None:
    claim, written = await started(own)
    kill(pid_of(own))
    for call in (
        guest.accept(item(claim.sid, "d2")),
        guest.claim(claim.sid, "w"),
        guest.commit(claim, ending(written.seq, 1)),
        guest.state(claim.sid),
        guest.sweep(),
        guest.read_policy(),
    ):
        with pytest.raises(StoreGoneError, match="does not answer"):
            await call
    await own.read_policy()
    await guest.commit(claim, ending(written.seq, 1))
    state = await own.state(claim.sid)
    assert state is not None
    assert state.status is Status.IDLE


async def test_a_store_that_hangs(own: RedisStore, guest: RedisStore) -> None:
    await own._link.commands(("CLIENT", "PAUSE", 2000, "WRITE"))
    with pytest.raises(StoreGoneError):
        await guest.accept(item(fresh()))
    await own._link.commands(("CLIENT", "UNPAUSE"))


async def test_nobody_listens(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/none.sock", "redis://127.0.0.1:1/0"):
        with pytest.raises(StoreGoneError):
            await open_store(audit_key=KEY, url=url, options=HURRIED)


async def test_no_address() -> None:
    with pytest.raises(StoreError, match="not an address"):
        await open_store(audit_key=KEY, url="postgres://localhost")
    with pytest.raises(StoreRefusedError, match="neither"):
        await open_store(audit_key=KEY)


async def test_a_full_store_refuses_and_keeps(own: RedisStore) -> None:
    claim, written = await started(own)
    before = await dump(own, claim.sid)
    await command(own, "CONFIG", "SET", "maxmemory", 1)
    for call in (
        own.accept(item(claim.sid, "d2")),
        own.record(claim, Write(fresh(), written.seq, events=(event(),), audit=(row(),))),
        own.commit(claim, ending(written.seq, 1, deliver=(answer(),))),
        own.append((row(),)),
    ):
        with pytest.raises(StoreRefusedError, match="memory limit") as caught:
            await call
        assert "maxmemory" in caught.value.next_step
    assert await dump(own, claim.sid) == before
    await command(own, "CONFIG", "SET", "maxmemory", 0)
    await own.commit(claim, ending(written.seq, 1, deliver=(answer(),)))


async def test_a_replica_refuses_and_keeps(own: RedisStore) -> None:
    claim, written = await started(own)
    before = await dump(own, claim.sid)
    await command(own, "REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(StoreRefusedError, match="read-only replica"):
        await own.commit(claim, ending(written.seq, 1))
    with pytest.raises(StoreRefusedError, match="read-only replica"):
        await own.accept(item(claim.sid, "d2"))
    assert await dump(own, claim.sid) == before
    await command(own, "REPLICAOF", "NO", "ONE")
    await own.commit(claim, ending(written.seq, 1))


async def test_forgotten_scripts_are_sent_again(own: RedisStore) -> None:
    sid = fresh()
    await own.accept(item(sid))
    await command(own, "SCRIPT", "FLUSH")
    assert (await own.accept(item(sid, "d2"))).position == 2
    assert (await own.claim(sid, "w")) is not None


async def test_a_user_without_permission(own: RedisStore) -> None:
    assert own.server is not None
    await command(own, "ACL", "SETUSER", "guest", "on", ">right", "~lg:*", "+ping", "+info", "+client")
    path = own.server.files.socket
    store = await open_store(audit_key=KEY, url=f"unix://guest:right@{path}")
    with pytest.raises(StoreRefusedError, match="may not run"):
        await store.accept(item(fresh()))
    await store.close()
    with pytest.raises(StoreRefusedError, match="refused the password"):
        await open_store(audit_key=KEY, url=f"unix://guest:wrong@{path}")
    await command(own, "CONFIG", "SET", "requirepass", "secret")
    with pytest.raises(StoreRefusedError, match="demands a password"):
        await open_store(audit_key=KEY, url=own.server.url)
    await command(own, "CONFIG", "SET", "requirepass", "")


async def test_another_refusal_is_told_as_it_is(store: RedisStore) -> None:
    with pytest.raises(StoreRefusedError, match="unknown command"):
        await command(store, "NOSUCHCOMMAND")


async def test_an_unfit_server_is_named(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    await supervisor.attach()
    store = await open_store(audit_key=KEY, url=supervisor.url)
    assert await store.complaints() == []
    await command(store, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    await command(store, "CONFIG", "SET", "appendonly", "no")
    assert [str(one).partition(" (")[0] for one in await store.complaints()] == [
        "the store evicts records",
        "the store does not keep what it acknowledges",
    ]
    with pytest.raises(StoreRefusedError, match="evicts"):
        await open_store(audit_key=KEY, url=supervisor.url)
    await store.close()
    await supervisor.detach()


@pytest.mark.parametrize(
    "info, fit",
    [
        ("redis_version:7.2.4", False),
        ("redis_version:7.4.1", True),
        ("redis_version:8.2.0", True),
        ("redis_version:7.2.4\r\nvalkey_version:9.0.0", True),
        ("redis_version:7.2.4\r\nvalkey_version:8.1.0", False),
        ("redis_version:odd", False),
        ("", False),
    ],
)
async def test_servers_that_are_too_old(tmp_path: Path, info: str, fit: bool) -> None:  # noqa: FBT001 - a case
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while asked := await reader.read(1000):
            answer = f"${len(info)}\r\n{info}\r\n" if b"INFO" in asked else "+OK\r\n"
            writer.write(answer.encode())
        writer.close()

    async with await asyncio.start_unix_server(play, str(tmp_path / "s")):
        if fit:
            await (await open_store(audit_key=KEY, url=f"unix://{tmp_path}/s")).close()
        else:
            with pytest.raises(StoreRefusedError, match="too old"):
                await open_store(audit_key=KEY, url=f"unix://{tmp_path}/s")


async def test_a_cancelled_call_leaves_no_reply_behind(own: RedisStore) -> None:
    await own._link.commands(("CLIENT", "PAUSE", 300, "WRITE"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await own.accept(item("cancelled"))
    for n in range(20):
        assert (await own.accept(item("other", f"d{n}"))).position == n + 1
