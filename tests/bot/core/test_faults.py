"""Why a server did not answer: what its status means, what broke a connection, and who mends that."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bot.core.faults import place, refused, unreached

pytestmark = pytest.mark.anyio

KEY = "the environment variable A_KEY"


@pytest.mark.parametrize(
    "status,quota,cause,step",
    [
        (400, False, "it does not take the request", "the model's name or its configuration"),
        (401, False, "it does not accept the key", KEY),
        (402, False, "the quota of its account is used up", "add credit"),
        (403, False, "it does not let this key use the model", KEY),
        (404, False, "it does not know the model", "mend the model's name"),
        (422, False, "it does not take the request", "the model's name or its configuration"),
        (429, True, "the quota of its account is used up", "raise the limit"),
        (301, False, "it redirects", "`base_url`"),
    ],
)
def test_what_the_operator_mends_says_how(status: int, quota: bool, cause: str, step: str) -> None:  # noqa: FBT001
    found = refused(status, key=KEY, quota=quota)
    assert cause in found.cause
    assert f"(status {status})" in found.cause
    assert step in found.step


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_what_waiting_mends_has_no_step(status: int) -> None:
    assert not refused(status, key=KEY).step


@asynccontextmanager
async def self_signed(folder: Path) -> AsyncGenerator[int]:
    """Listen on loopback with a certificate that nobody signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def failing(url: str) -> Exception:
    """Return what a client raises that asks there."""
    async with httpx2.AsyncClient(timeout=60) as client:
        with pytest.raises(httpx2.HTTPError) as caught:
            await client.get(url)
    return caught.value


async def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    async with self_signed(tmp_path) as port:
        found = unreached(await failing(f"https://127.0.0.1:{port}/"))
    assert found.cause == "its certificate is not trusted"
    assert "SSL_CERT_FILE" in found.step


async def test_a_server_that_speaks_no_tls() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 x\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        found = unreached(await failing(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    assert found.cause == "no encrypted connection can be made"
    assert found.step


async def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        found = unreached(await failing(f"http://127.0.0.1:{held.getsockname()[1]}/"))
    assert found.cause == "nothing listens there"
    assert found.step


async def test_a_name_that_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_named: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = unreached(await failing("http://models.example.com/"))
    assert found.cause == "its name cannot be resolved"
    assert "DNS" in found.step


def test_whatever_else_broke_may_pass() -> None:
    error = ConnectionResetError("hunter2")
    # What leads to itself is looked at once.
    error.__context__ = ExceptionGroup("x", [error])
    found = unreached(error)
    assert found.cause == "the connection failed (ConnectionResetError)"
    assert not found.step


def test_of_an_address_host_and_port_are_told() -> None:
    assert place("https://ann:secret@models.example.com:8443/v1?key=4711") == "models.example.com:8443"
    assert place("redis+sentinel://ann:secret@a:1,[::1]:2/main?sentinel_password=x") == "a:1,[::1]:2"
    assert not place(None)
