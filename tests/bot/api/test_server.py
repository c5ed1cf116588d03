"""The server: callers who dawdle keep nothing, what breaks is told by one sentence, and it ends in a moment."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx2
import pytest
from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from bot.api.application import ROUTERS, framework_of
from bot.api.entrance.caller_patience import PATIENCE, CallerPatience
from bot.api.requests import Reading, Services
from bot.api.server import bound, serve
from bot.app.programs import api_services
from bot.core.errors import LeaseLostError, StoreGoneError
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.api.listening import Scribe, said
from tests.bot.kit import eventually

pytestmark = pytest.mark.anyio

HASTE = CallerPatience(headers=1, body=1, idle=1, rest=0.5, reading=1)


TROUBLE: Final = APIRouter()
"""Routes that break, and some that say much and for ever, or half of it."""


@TROUBLE.get("/breaks")
async def breaks(asked: Reading) -> None:
    raise RuntimeError(f"the secret of {asked.caller.name}")


@TROUBLE.get("/loses")
async def loses(_asked: Reading) -> None:
    raise LeaseLostError("held by another worker")


@TROUBLE.get("/lacks")
async def lacks(_asked: Reading) -> None:
    raise StoreGoneError("no answer from 10.0.0.7", next_step="start it")


@TROUBLE.get("/echoes/{number}")
async def echoes(_asked: Reading, number: int) -> int:
    return number


@TROUBLE.get("/follows")
async def follows(services: Services, _asked: Reading) -> StreamingResponse:
    async def until_closing() -> AsyncIterator[bytes]:
        yield b"begun\n"
        await services.closing.wait()
        yield b"ended\n"

    return StreamingResponse(until_closing())


@TROUBLE.get("/halves")
async def halves(_asked: Reading) -> StreamingResponse:
    async def half() -> AsyncIterator[bytes]:
        yield b"begun\n"
        raise RuntimeError("the rest is a secret")

    return StreamingResponse(half())


@TROUBLE.get("/floods")
async def floods(_asked: Reading) -> StreamingResponse:
    async def flood() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000
            await asyncio.sleep(0)

    return StreamingResponse(flood())


WITH_TROUBLE: Final = framework_of((*ROUTERS, TROUBLE))


@asynccontextmanager
async def host(
    folder: Path,
    patience: CallerPatience = PATIENCE,
    **settings: object,
) -> AsyncGenerator[tuple[ApiHost, "asyncio.Task[None]"]]:
    """Serve an API with routes that are in trouble; return it, and the task that serves it."""
    async with served(folder, api_config(settings=settings), works=False) as first:
        began = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(api_services(first.app), began.set_result, patience, WITH_TROUBLE))
        try:
            yield ApiHost(first.person, await began), serving
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


@asynccontextmanager
async def line(url: str) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection that says what it likes."""
    name, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader, seconds: float = 60) -> bytes:
    """Return what is said until the other side ends the connection, within some seconds."""
    said = b""
    async with asyncio.timeout(seconds):
        with suppress(ConnectionError):
            while more := await reader.read(65_536):
                said += more
    return said


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /v1/who",
        b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nx-more: ",
        # A second request on a connection is no different.
        b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/who",
        b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\n\r\n",
        # What is left of a body whose request was refused.
        b"POST /v1/whoami HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
    ],
)
async def test_a_caller_who_dawdles_is_let_go(tmp_path: Path, said: bytes) -> None:
    async with host(tmp_path, HASTE) as (api, _), line(api.url) as (reader, writer):
        writer.write(said)
        told = await ended(reader)
    assert told.count(b"HTTP/1.1 401") == said.count(b"\r\n\r\n")


async def test_headers_that_trickle_are_not_waited_for(tmp_path: Path) -> None:
    async with host(tmp_path, HASTE) as (api, _), line(api.url) as (reader, writer):
        writer.write(b"GET /v1/whoami HTTP/1.1\r\n")
        trickling = asyncio.create_task(trickle(writer))
        assert await ended(reader) == b""
        trickling.cancel()


async def trickle(writer: asyncio.StreamWriter) -> None:
    for number in range(1000):
        writer.write(f"x-{number}: y\r\n".encode())
        await asyncio.sleep(0.05)


async def test_a_body_that_trickles_is_refused(tmp_path: Path) -> None:
    async with host(tmp_path, HASTE) as (api, _), line(api.url) as (reader, writer):
        token = await api.token()
        head = f"POST /v1/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 9000\r\n\r\n"
        writer.write(head.encode())
        trickling = asyncio.create_task(trickle(writer))
        told = await ended(reader)
        trickling.cancel()
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b'"too_slow"' in told


async def test_all_bodies_together_take_so_much_and_give_it_back(tmp_path: Path) -> None:
    """Four of the largest: callers who send all but the last byte of theirs leave no room for another one."""
    async with host(tmp_path, most_body_bytes=1000, most_import_bytes=1000) as (api, _), AsyncExitStack() as slow:
        token = await api.token()
        head = f"POST /v1/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 1000\r\n\r\n"
        lines = [await slow.enter_async_context(line(api.url)) for _ in range(4)]
        for _, writer in lines:
            writer.write(head.encode() + b"x" * 999)
        async with api.client(token) as client:

            async def full() -> bool:
                refused = await client.post("/v1/whoami", content=b"x" * 1000)
                return (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")

            await eventually(full)
            for reader, writer in lines:
                writer.write(b"x")
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 405 ")
            assert not await full()


async def test_a_caller_who_does_not_read_is_let_go(tmp_path: Path) -> None:
    async with host(tmp_path, HASTE) as (api, _), line(api.url) as (reader, writer):
        token = await api.token()
        writer.write(f"GET /v1/floods HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode())
        await asyncio.sleep(2)
        assert len(await ended(reader)) > 100_000


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nbad header: y\r\n\r\n",
        b"GET /v1/whoami HTTP/1.1\r\n\r\n",
        b"POST /v1/whoami HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000,
    ],
)
async def test_what_is_no_http_is_told_so_in_the_same_shape(tmp_path: Path, said: bytes) -> None:
    async with host(tmp_path) as (api, _), line(api.url) as (reader, writer):
        writer.write(said)
        head, _, body = (await ended(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "malformed"


async def test_a_large_export_may_be_read_slowly_and_is_one_at_a_time_of_its_program(tmp_path: Path) -> None:
    async with host(tmp_path, replace(PATIENCE, reading=20)) as (api, _), line(api.url) as (reader, writer):
        token, other = await api.token(), await api.token("other")
        large, small = await Scribe.begun(api.app.store), await Scribe.begun(api.app.store, "other")
        for _ in range(20):
            await large.write(*[said("x" * 25_000)] * 40)
        shown = f"host: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n"
        writer.write(f"GET /v1/sessions/{large.sid}/export HTTP/1.1\r\n{shown}\r\n".encode())
        got = len(await reader.readuntil(b"\r\n\r\n"))
        async with api.client(other) as client, api.client(token) as own:
            assert (await client.get(f"/v1/sessions/{small.sid}/export")).status_code == 200
            waits = asyncio.create_task(own.get(f"/v1/sessions/{large.sid}/export"))
            assert not (await asyncio.wait({waits}, timeout=0.5))[0]
            while piece := await reader.read(500_000):
                got += len(piece)
                await asyncio.sleep(0.03)
            assert got > 20_000_000
            assert len((await waits).content) > 20_000_000


@pytest.mark.parametrize("known,status", [(True, b"400"), (False, b"401")])
async def test_nothing_more_is_read_where_a_body_ends_in_two_places(
    tmp_path: Path, *, known: bool, status: bytes
) -> None:
    """A proxy that goes by the length would give what follows to somebody else's connection."""
    async with host(tmp_path) as (api, _), line(api.url) as (reader, writer):
        token = await api.token()
        shown = f"authorization: Bearer {token}\r\n"
        writer.write(
            f"POST /v1/sessions HTTP/1.1\r\nhost: x\r\n{shown if known else ''}content-length: 5\r\n"
            f"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/whoami HTTP/1.1\r\nhost: x\r\n{shown}\r\n".encode()
        )
        told = await ended(reader)
    assert told.startswith(b"HTTP/1.1 " + status)
    assert told.count(b"x-request-id") == 1


async def test_idle_connections_make_room(tmp_path: Path) -> None:
    """Whoever opens as many as there are keeps nobody out."""
    async with host(tmp_path, most_connections=5) as (api, _):
        token = await api.token()
        opened = [await line(api.url).__aenter__() for _ in range(20)]
        async with api.client(token) as client:
            for _ in range(3):
                assert (await client.get("/v1/whoami")).status_code == 200
        assert await ended(opened[0][0]) == b""
        for _, writer in opened:
            writer.close()


async def test_many_connections_that_come_at_once_are_no_more_than_there_may_be(tmp_path: Path) -> None:
    async with host(tmp_path, replace(PATIENCE, headers=300), most_connections=5) as (api, _):
        token, let_go = await api.token(), asyncio.Semaphore(0)

        async def stay() -> None:
            async with line(api.url) as (reader, _):
                await ended(reader)
                let_go.release()

        async with asyncio.TaskGroup() as many:
            tasks = [many.create_task(stay()) for _ in range(100)]
            async with asyncio.timeout(60):
                for _ in range(95):
                    await let_go.acquire()
            async with api.client(token) as client:
                assert (await client.get("/v1/whoami")).status_code == 200
            for task in tasks:
                task.cancel()


async def test_what_breaks_is_told_by_one_sentence_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host(tmp_path) as (api, _), api.client(await api.token()) as client:
        answers = [await client.get(path) for path in ("/v1/breaks", "/v1/loses")]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "secret" not in answer.text
        assert "worker" not in answer.text
        reference = answer.json()["request_id"]
        logged = [one for one in caplog.records if getattr(one, "reference", "") == reference]
        assert len(logged) == 1
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 2


async def test_an_answer_that_breaks_on_the_way_is_cut_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with host(tmp_path) as (api, _), api.client(await api.token()) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/v1/halves")
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1


async def test_the_words_of_the_store_are_not_for_programs(tmp_path: Path) -> None:
    async with host(tmp_path) as (api, _), api.client(await api.token()) as client:
        answer = await client.get("/v1/lacks")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "10.0.0.7" not in answer.text
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_wrong_value_is_named_by_its_place_and_not_echoed(tmp_path: Path) -> None:
    async with host(tmp_path) as (api, _), api.client(await api.token()) as client:
        answer = await client.get("/v1/echoes/planted-secret")
    assert answer.status_code == 422
    assert "path.number" in answer.json()["error"]["next_step"]
    assert "planted" not in answer.text


async def test_it_ends_in_a_moment_with_streams_that_are_told_so(tmp_path: Path) -> None:
    patience = replace(PATIENCE, ending=600)
    async with host(tmp_path, patience) as (api, serving), api.client(await api.token()) as client:
        async with client.stream("GET", "/v1/follows") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "begun"
            serving.cancel()
            assert await anext(lines) == "ended"
        async with asyncio.timeout(60):
            await asyncio.wait({serving})
        with pytest.raises(httpx2.ConnectError):
            await client.get("/v1/whoami")


async def test_what_is_ended_with_its_process_is_told_so_in_the_same_shape(tmp_path: Path) -> None:
    """A body that is still on its way when the process does not wait any longer."""
    async with host(tmp_path, replace(PATIENCE, ending=1)) as (api, serving), line(api.url) as (reader, writer):
        token = await api.token()
        shown = f"authorization: Bearer {token}"
        writer.write(f"POST /v1/sessions HTTP/1.1\r\nhost: x\r\n{shown}\r\ncontent-length: 9\r\n\r\n{{".encode())
        await asyncio.sleep(0.2)
        serving.cancel()
        head, _, body = (await ended(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in head
    assert json.loads(body)["error"]["code"] == "unavailable"


async def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="in use")):
            async with served(tmp_path, api_config(settings={"port": port}), works=False):
                pass


def test_what_is_written_does_not_wait_for_what_was_read() -> None:
    """A connection whose small packets wait for one another takes 40 ms for each answer."""
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
