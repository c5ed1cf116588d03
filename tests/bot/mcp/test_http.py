"""A server that is reached by URL: on loopback, with bounds on what it answers, and found again when it is back."""

import asyncio
import gzip
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
from pydantic import JsonValue

from bot.mcp.tool import DISCONNECTED, NOT_RUNNING, TIMED_OUT, McpResult
from tests.bot.mcp.servers import PROGRAM, SEARCH, serving
from tests.sim.ports import free_port

pytestmark = pytest.mark.anyio


def at(port: int, **more: JsonValue) -> dict[str, JsonValue]:
    return {"url": f"http://127.0.0.1:{port}/mcp", "tools": {"search": SEARCH}, **more}


@asynccontextmanager
async def program() -> AsyncGenerator[int]:
    quiet = subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, "http", stdout=subprocess.PIPE, stderr=quiet
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[int]:
    """Serve one fixed HTTP answer to whoever asks."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_calls_go_over_http_and_faults_are_constants() -> None:
    async with program() as port, serving(at(port, call_seconds=4)) as call:
        assert await call("search", word="w") == McpResult("10 notes hold w")
        assert await call("fails") == McpResult("Error executing tool fails: the password is 4711", failed=True)
        assert await call("hang") == McpResult(TIMED_OUT, failed=True)
        assert await call("huge", characters=5_000_000) == McpResult(DISCONNECTED, failed=True)
        assert await call.patiently("search", word="w") == McpResult("10 notes hold w")
        assert await call("crash") == McpResult(DISCONNECTED, failed=True)
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)


async def test_a_configured_header_is_sent_and_what_we_are_is_not_hidden() -> None:
    seen = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not seen.done():
            seen.set_result(head.decode().lower())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with serving(at(port, headers={"Authorization": "Bearer b"})) as call:
            assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
    assert "authorization: bearer b" in await seen
    assert "accept-encoding: identity" in await seen


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\nContent-Length: 17\r\n\r\npassword is 4711!",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + b"x" * 5_000_000,
        b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n",
        b"no HTTP at all",
    ],
    ids=["error", "packed", "endless", "endless-event", "elsewhere", "garbage"],
)
async def test_what_is_no_server_is_not_running(answer: bytes) -> None:
    async with answering(answer) as port, serving(at(port, start_seconds=60)) as call:
        outcome = await call("search", word="w")
        assert outcome == McpResult(NOT_RUNNING, failed=True)


async def test_a_packed_answer_is_not_unpacked() -> None:
    body = gzip.compress(b"[" + b" " * 20_000_000 + b"]")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}"
    async with answering(f"{head}\r\n\r\n".encode() + body) as port, serving(at(port, start_seconds=60)) as call:
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
        assert "packed" in call.servers.complaint("notes")


async def test_nobody_at_the_address_is_told_to_the_operator_alone() -> None:
    async with serving(at(free_port())) as call:
        assert await call("search", word="w") == McpResult(NOT_RUNNING, failed=True)
        assert "onnect" in call.servers.complaint("notes")
