"""An answer that is none ends the call at once, and operators read which server gave it and what is wrong with it."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp.types.jsonrpc import JSONRPCNotification, JSONRPCRequest
from pydantic import JsonValue

from bot.mcp import answers
from bot.mcp.answers import SentRequests
from bot.mcp.tool import NOT_RUNNING, UNREADABLE, McpResult
from tests.bot.mcp.servers import SEARCH, serving
from tests.sim.mcp_legacy import FAULTS, broken

pytestmark = pytest.mark.anyio

LEGACY = str(Path(__file__).parents[2] / "sim" / "mcp_legacy.py")
TOLD = {
    "no-message": answers.NOT_A_MESSAGE,
    "no-version": answers.NOT_A_MESSAGE,
    "both": answers.BOTH,
    "neither": answers.NEITHER,
    "wrong-id": answers.WRONG_ID,
    "nameless": answers.NAMELESS,
    "result-text": answers.WRONG_TYPES,
    "error-text": answers.WRONG_TYPES,
    "batch": answers.NOT_A_MESSAGE,
    "half": answers.STOPPED,
    "cut": answers.NOT_A_MESSAGE,
    "chatter": answers.CHATTER,
    "huge": answers.TOO_LONG,
}


def legacy(*arguments: str) -> dict[str, JsonValue]:
    """Return a server that answers nonsense; a call that waited for it would take a minute."""
    return {"command": sys.executable, "args": [LEGACY, *arguments], "tools": {}}


async def called(fault: str) -> tuple[McpResult, str]:
    async with serving(legacy()) as call:
        return await call(fault), call.servers.complaint("notes")


async def begun(fault: str) -> tuple[McpResult, str]:
    async with serving(legacy(fault)) as call:
        return await call("search", word="w"), call.servers.complaint("notes")


async def test_a_process_that_answers_nonsense_fails_at_once_and_by_name(caplog: pytest.LogCaptureFixture) -> None:
    """All of them at once: two of the faults are silence, which takes its seconds."""
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            found = {fault: tasks.create_task(called(fault)) for fault in FAULTS}
    assert {fault: task.result() for fault, task in found.items()} == {
        fault: (McpResult(UNREADABLE, failed=True), told) for fault, told in TOLD.items()
    }
    facts = [vars(record) for record in caplog.records]
    assert {(one["subject"], one["cause"]) for one in facts} == {("MCP server `notes`", told) for told in TOLD.values()}
    assert all("lockgate doctor" in one["step"] for one in facts)


async def test_one_that_cannot_even_begin_is_not_running_and_says_why() -> None:
    faults = ("no-message", "both", "wrong-id", "half", "huge")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        found = {fault: tasks.create_task(begun(fault)) for fault in faults}
    assert {fault: task.result() for fault, task in found.items()} == {
        fault: (McpResult(NOT_RUNNING, failed=True), TOLD[fault]) for fault in faults
    }


@asynccontextmanager
async def answering_http(kind: str) -> AsyncGenerator[int]:
    """Serve MCP over HTTP: in order until a tool is called, then with the fault of its name."""
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        message: dict[str, Any] = json.loads(await reader.readexactly(int(length))) if length else {}
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            body = json.dumps({"jsonrpc": "2.0", "id": number, "result": info})
        elif method == "tools/call":
            body = broken(message["params"]["name"], number)
        else:
            writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            writer.close()
            return
        streamed = kind == "text/event-stream" and method == "tools/call"
        said = f"data: {body}" + ("\n" if body.endswith("\n") else "") if streamed else body
        more = 1000 if message.get("params", {}).get("name") == "half" else 0
        told = kind if streamed else "application/json"
        size = "" if streamed else f"Content-Length: {len(said) + more}\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {told}\r\n{size}Connection: close\r\n\r\n{said}".encode())
        if more:
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def told(*chunks: bytes) -> bytes:
    """Return a stream of events as it is read in answer to request 1."""

    async def body() -> AsyncGenerator[bytes]:
        for chunk in chunks:
            yield chunk

    asks = httpx2.Request("POST", "http://mcp", content=b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}')
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"})
    stream = cast("httpx2.AsyncByteStream", body())
    return b"".join([part async for part in answers.checked(asks, answer, stream)])


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_events_are_the_same_however_they_are_cut(end: bytes) -> None:
    said = (b"event: ping", b"data: now", b"", b'data: {"jsonrpc": "2.0",', b'data: "id": 1, "result": {}}', b"")
    whole = end.join((*said, b"data: nonsense", b"", b""))
    good = end.join((*said, b""))
    for size in (1, 2, 3, len(whole)):
        found = await told(*(whole[begin : begin + size] for begin in range(0, len(whole), size)))
        assert found.startswith(good)
        assert answers.NOT_A_MESSAGE.encode() in found.removeprefix(good)


async def test_a_long_answer_comes_in_small_parts() -> None:
    """Where each part was joined to all before, this took longer than a test may."""
    event = b'data: {"jsonrpc": "2.0", "id": 1, "result": {"a": "' + b"x" * 2_000_000 + b'"}}\n\n'
    assert await told(*(event[begin : begin + 1000] for begin in range(0, len(event), 1000))) == event
    with pytest.raises(httpx2.ReadError):
        await told(*[b":\n" * 500] * (answers.LONGEST // 1000 + 1))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_over_http_nonsense_fails_at_once_too(kind: str) -> None:
    faults = [fault for fault in FAULTS if fault not in {"huge", "chatter", "batch"}]
    async with answering_http(kind) as port, asyncio.timeout(60), asyncio.TaskGroup() as tasks:

        async def ask(fault: str) -> tuple[McpResult, str]:
            async with serving({"url": f"http://127.0.0.1:{port}/mcp", "tools": {"search": SEARCH}}) as call:
                return await call(fault), call.servers.complaint("notes")

        found = {fault: tasks.create_task(ask(fault)) for fault in faults}
    assert {fault: task.result() for fault, task in found.items()} == {
        fault: (McpResult(UNREADABLE, failed=True), TOLD[fault]) for fault in faults
    }


def test_an_answer_that_comes_late_is_no_fault() -> None:
    asked = SentRequests()
    asked.sent(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call"))
    asked.sent(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}))
    assert asked.waiting == set()
    assert answers.fault(b'{"jsonrpc": "2.0", "id": 1, "result": {}}', asked.knows) == ("", 1)
    assert answers.fault(b'{"jsonrpc": "2.0", "id": "1", "result": {}}', asked.knows) == ("", "1")
    assert answers.fault(b'{"jsonrpc": "2.0", "id": 2, "result": {}}', asked.knows) == (answers.WRONG_ID, 2)
    assert answers.fault(b'{"jsonrpc": "2.0", "id": true, "result": {}}', asked.knows) == (answers.WRONG_TYPES, None)
