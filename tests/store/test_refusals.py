"""A store that is gone, full, read-only, locked or unfit: one clear sentence, and nothing is lost."""

# pyright: reportPrivateUsage=false

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bot.core.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.sessions.models import Status, Write
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from bot.store.redis_store import RedisStore
from bot.store.servers.address import read_address
from bot.store.servers.embedded_server import Supervisor
from bot.store.servers.server import Server, SingleServer, connecting, single_pool
from tests.bot.kit import bang
from tests.harness import running
from tests.store.world import KEY, answer, command, dump, ending, event, fresh, item, kill, pid_of, row, started

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("they harm a server in each way there is")]
HURRIED = StoreOptions(timeout=3)


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
        guest.sessions.accept(item(claim.sid, "d2")),
        guest.sessions.claim(claim.sid, "w"),
        guest.sessions.commit(claim, ending(written.seq, 1)),
        guest.sessions.state(claim.sid),
        guest.wake.sweep(),
        guest.policy.read_policy(),
    ):
        with pytest.raises(StoreGoneError, match="does not answer"):
            await call
    await own.policy.read_policy()
    await guest.sessions.commit(claim, ending(written.seq, 1))
    state = await own.sessions.state(claim.sid)
    assert state is not None
    assert state.status is Status.IDLE


async def test_a_store_that_hangs(own: RedisStore, guest: RedisStore) -> None:
    await own._shared.connection.commands(("CLIENT", "PAUSE", 60_000, "WRITE"))
    with pytest.raises(StoreGoneError):
        await guest.sessions.accept(item(fresh()))
    await own._shared.connection.commands(("CLIENT", "UNPAUSE"))


async def test_nobody_listens(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/none.sock", "redis://127.0.0.1:1/0"):
        with pytest.raises(StoreGoneError):
            await open_store(audit_key=KEY, url=url, options=HURRIED)


async def test_no_address() -> None:
    with pytest.raises(StoreError, match="not an address"):
        await open_store(audit_key=KEY, url="postgres://localhost")
    with pytest.raises(StoreRefusedError, match="neither"):
        await open_store(audit_key=KEY)


async def test_who_waits_for_a_store_to_start_shares_the_outcome(tmp_path: Path) -> None:
    """One that hangs is waited for once, not by each caller in turn; who comes later tries again."""
    tries = 0

    async def revive() -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0.05)
        if tries == 1:
            raise StoreGoneError("it hangs")

    address = read_address(f"unix://{tmp_path}/s")
    server = Server(single_pool(connecting(address, timeout=1, name="n")))
    one = SingleServer(server, timeout=1, revive=revive)
    told = await asyncio.gather(*(one.restore() for _ in range(4)), return_exceptions=True)
    assert ([str(error) for error in told], tries) == (["it hangs"] * 4, 1)
    await asyncio.gather(*(one.restore() for _ in range(4)))
    assert tries == 2


async def test_a_full_store_refuses_and_keeps(own: RedisStore) -> None:
    claim, written = await started(own)
    before = await dump(own, claim.sid)
    await command(own, "CONFIG", "SET", "maxmemory", 1)
    for call in (
        own.sessions.accept(item(claim.sid, "d2")),
        own.sessions.record(claim, Write(fresh(), written.seq, events=(event(),), audit=(row(),))),
        own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),))),
        own.audit.append((row(),)),
    ):
        with pytest.raises(StoreRefusedError, match="memory limit") as caught:
            await call
        assert "maxmemory" in caught.value.next_step
    assert await dump(own, claim.sid) == before
    await command(own, "CONFIG", "SET", "maxmemory", 0)
    await own.sessions.commit(claim, ending(written.seq, 1, deliver=(answer(),)))


async def test_a_replica_refuses_and_keeps(own: RedisStore) -> None:
    claim, written = await started(own)
    before = await dump(own, claim.sid)
    await command(own, "REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(StoreRefusedError, match="read-only replica"):
        await own.sessions.commit(claim, ending(written.seq, 1))
    with pytest.raises(StoreRefusedError, match="read-only replica"):
        await own.sessions.accept(item(claim.sid, "d2"))
    assert await dump(own, claim.sid) == before
    await command(own, "REPLICAOF", "NO", "ONE")
    await own.sessions.commit(claim, ending(written.seq, 1))


async def test_forgotten_scripts_are_sent_again(own: RedisStore) -> None:
    sid = fresh()
    await own.sessions.accept(item(sid))
    await command(own, "SCRIPT", "FLUSH")
    assert (await own.sessions.accept(item(sid, "d2"))).position == 2
    assert (await own.sessions.claim(sid, "w")) is not None


async def test_a_user_without_permission(own: RedisStore) -> None:
    assert own.server is not None
    await command(
        own, "ACL", "SETUSER", "guest", "on", ">right", "~lg:*", "+ping", "+info", "+client", "+exists", "+hget"
    )
    path = own.server.files.socket
    store = await open_store(audit_key=KEY, url=f"unix://guest:right@{path}")
    with pytest.raises(StoreRefusedError, match="may not run `EVALSHA`") as caught:
        await store.sessions.accept(item(fresh()))
    assert "docs/several-machines.md" in caught.value.next_step
    assert [str(one) for one in await store.complaints()] == [str(caught.value)]
    await command(own, "ACL", "SETUSER", "guest", "+@all", "resetkeys", "~other:*")
    with pytest.raises(StoreRefusedError, match="may not use the keys `lg:\\*`"):
        await store.sessions.accept(item(fresh()))
    await command(own, "ACL", "SETUSER", "guest", "~lg:*", "-hset")
    with pytest.raises(StoreRefusedError, match="may not run `HSET`"):
        await store.sessions.accept(item(fresh()))
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
        "the store does not keep the writes that it acknowledges",
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
            # The version of the schema, and the mark of a restore, are asked for together.
            empty = "$-1\r\n:0\r\n" if b"HGET" in asked else "+OK\r\n"
            writer.write((f"${len(info)}\r\n{info}\r\n" if b"INFO" in asked else empty).encode())
        writer.close()

    async with await asyncio.start_unix_server(play, str(tmp_path / "s")):
        if fit:
            await (await open_store(audit_key=KEY, url=f"unix://{tmp_path}/s")).close()
        else:
            with pytest.raises(StoreRefusedError, match="too old"):
                await open_store(audit_key=KEY, url=f"unix://{tmp_path}/s")


async def test_a_cancelled_call_leaves_no_reply_behind(own: RedisStore) -> None:
    await own._shared.connection.commands(("CLIENT", "PAUSE", 60_000, "WRITE"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await own.sessions.accept(item("cancelled"))
    await own._shared.connection.commands(("CLIENT", "UNPAUSE"))
    for n in range(20):
        assert (await own.sessions.accept(item("other", f"d{n}"))).position == n + 1


async def test_the_rights_that_the_documents_list_are_enough(own: RedisStore, tmp_path: Path) -> None:
    """A conversation with a tool, a background session and a question runs on them."""
    assert own.server is not None
    listed = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text()
    (words,) = re.findall(r"^user lockgate on >PASSWORD (.+)$", listed, re.MULTILINE)
    await command(own, "ACL", "SETUSER", "lockgate", "on", ">right", *words.split())
    url = f"unix://lockgate:right@{own.server.files.socket}"
    async with running(tmp_path, environment={"LOCKGATE_STORE_URL": url}) as owner:
        assert "You said: hello" in await owner.say("hello")
        await owner.say(bang("sessions_spawn", task="hello"))
        await owner.say(bang("read_file", path="public/welcome.md"))
        assert "May `write_file` run" in await owner.say(bang("write_file", path="internal/x.md", text="x"))
        assert "stopped" in await owner.say("/stop")
        assert await owner.app.store.complaints() == []
        await owner.app.store.wake.sweep()
    denied = await command(own, "ACL", "LOG")
    assert denied == []


async def test_doctor_proves_that_the_store_can_be_written(own: RedisStore) -> None:
    assert await own.complaints() == []
    await command(own, "CONFIG", "SET", "maxmemory", 1)
    assert ["memory limit" in str(one) for one in await own.complaints()] == [True]
    await command(own, "CONFIG", "SET", "maxmemory", 0)
    await command(own, "REPLICAOF", "127.0.0.1", 1)
    assert ["read-only replica" in str(one) for one in await own.complaints()] == [True]
    await command(own, "REPLICAOF", "NO", "ONE")


async def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    context = await asyncio.to_thread(_self_signed, tmp_path)
    async with await asyncio.start_server(_silent, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreRefusedError, match="certificate is not trusted: self-signed") as caught:
            await open_store(audit_key=KEY, url=f"rediss://127.0.0.1:{port}/0", options=HURRIED)
        assert "ssl_ca_certs" in caught.value.next_step
        with pytest.raises(StoreRefusedError, match="certificate is not trusted: self-signed"):
            await open_store(audit_key=KEY, url=f"rediss+cluster://127.0.0.1:{port}", options=HURRIED)
        # The library keeps to itself why a Sentinel could not be asked.
        with pytest.raises(StoreGoneError, match="Sentinels do not answer"):
            await open_store(audit_key=KEY, url=f"rediss+sentinel://127.0.0.1:{port}/main", options=HURRIED)
        # With its authority named it is trusted, and it says nothing.
        url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={tmp_path}/ca.pem"
        with pytest.raises(StoreGoneError):
            await open_store(audit_key=KEY, url=url, options=HURRIED)


async def _silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def _self_signed(folder: Path) -> ssl.SSLContext:
    """Return what a server needs that is its own authority; `ca.pem` in the folder is what its clients need."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    day = timedelta(days=1)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context
