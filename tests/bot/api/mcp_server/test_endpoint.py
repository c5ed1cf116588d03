"""MCP over HTTP as a client may misuse it: whose connections are, how many and how long, and what is no request."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2
import pytest
from mcp.types import METHOD_NOT_FOUND, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION

from bot.api.mcp_server.mount import McpLimits, McpMount
from bot.api.server import serve
from bot.app.programs import api_services
from bot.sessions.api_tokens import Scope
from tests.bot.api.kit import MAKER, ApiHost, api_config, served
from tests.bot.api.mcp_server.agents import agent, configured
from tests.bot.kit import eventually
from tests.harness import running

pytestmark = pytest.mark.anyio

OPENS: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
LISTS: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ACCEPTS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def calls(tool: str, number: int = 3, **arguments: object) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@asynccontextmanager
async def by_hand(host: ApiHost, token: str) -> AsyncGenerator[httpx2.AsyncClient]:
    async with host.client(token, **ACCEPTS) as client:
        yield client


async def opened(client: httpx2.AsyncClient) -> dict[str, str]:
    """Open a connection; return the header that names it."""
    answer = await client.post("/mcp", json=OPENS)
    assert answer.status_code == HTTPStatus.OK, answer.text
    assert answer.json()["result"]["serverInfo"]["name"] == "lockgate"
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


def error(answer: httpx2.Response) -> tuple[int, Any]:
    """Return a refusal without the id of its request."""
    return answer.status_code, answer.json()["error"]


async def test_a_connection_is_its_tokens_alone(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host:
        mine, theirs = await host.token("crane", Scope.STEER), await host.token("heron")
        async with by_hand(host, mine) as one, by_hand(host, theirs) as other:
            named = await opened(one)
            assert (await one.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.OK
            never = {"mcp-session-id": "0" * len(named["mcp-session-id"])}
            sent: tuple[tuple[str, object], ...] = (
                *(("POST", body) for body in (LISTS, calls("connection"), OPENS)),
                ("DELETE", None),
            )
            for method, body in sent:
                told = [await other.request(method, "/mcp", json=body, headers=headers) for headers in (named, never)]
                assert error(told[0]) == error(told[1])
                assert told[0].status_code == HTTPStatus.NOT_FOUND
                assert error(told[0])[1]["code"] == "no_connection"
                assert list(told[0].headers) == list(told[1].headers)
            # The one whose it is goes on.
            assert (await one.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.OK
            assert (await one.delete("/mcp", headers=named)).status_code == HTTPStatus.OK
            gone = await one.post("/mcp", json=LISTS, headers=named)
            assert error(gone) == error(await one.post("/mcp", json=LISTS, headers=never))


async def test_a_token_that_counts_no_more_ends_what_its_connections_may(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host:
        token = await host.token("crane", Scope.STEER)
        async with by_hand(host, token) as client:
            named = await opened(client)
            rotated = (await host.app.token_keeper.rotate("crane", 0, MAKER.principal)).text
            refused = await client.post("/mcp", json=calls("connection"), headers=named)
            assert refused.status_code == HTTPStatus.UNAUTHORIZED
            # The same program with its next token has connections of its own.
            async with by_hand(host, rotated) as after:
                assert (await after.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.NOT_FOUND
                named = await opened(after)
                await host.app.token_keeper.revoke("crane", MAKER.principal)
                assert (await after.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.UNAUTHORIZED
        async with host.client() as stranger:
            assert (await stranger.post("/mcp", json=OPENS)).status_code == HTTPStatus.UNAUTHORIZED


async def test_what_is_no_message_is_refused_as_the_protocol_says(tmp_path: Path) -> None:
    config = api_config(settings={"most_body_bytes": 2000})
    async with served(tmp_path, config, works=False) as host, by_hand(host, await host.token()) as client:
        named = await opened(client)
        bad = await client.post("/mcp", content=b"{", headers=named)
        assert (bad.status_code, bad.json()["error"]["code"]) == (HTTPStatus.BAD_REQUEST, PARSE_ERROR)
        for body in (b"[]", b"{}", b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', b"[" * 1500, b"\xff"):
            assert (await client.post("/mcp", content=body, headers=named)).status_code == HTTPStatus.BAD_REQUEST, body
        unknown = await client.post("/mcp", json={**LISTS, "method": "tools/destroy"}, headers=named)
        assert unknown.json()["error"]["code"] == METHOD_NOT_FOUND
        huge = await client.post("/mcp", json=calls("connection", up_to="x" * 3000), headers=named)
        assert error(huge)[0] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        without = await client.post("/mcp", json=LISTS)
        assert without.status_code == HTTPStatus.BAD_REQUEST
        assert (await client.get("/mcp", headers=named)).headers["allow"] == "DELETE, POST"
        assert (await client.get("/mcp/", headers=named)).status_code == HTTPStatus.NOT_FOUND
        twice = await client.post("/mcp", json=LISTS, headers=[*named.items(), *named.items()])
        assert twice.status_code == HTTPStatus.BAD_REQUEST
        # None of that ended the connection, or opened one.
        assert (await client.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.OK


async def test_a_protocol_that_is_not_known_is_told_which_are(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, by_hand(host, await host.token()) as client:
        newer = await client.post("/mcp", json=LISTS, headers={"mcp-protocol-version": "2031-01-01"})
        assert newer.status_code == HTTPStatus.BAD_REQUEST
        later = {**OPENS, "params": {**OPENS["params"], "protocolVersion": "2031-01-01"}}
        opening = await client.post("/mcp", json=later)
        # A client that does not speak what it is offered leaves.
        assert opening.json()["result"]["protocolVersion"] == "2025-11-25"
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": "2031-01-01",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        claimed: dict[str, Any] = {**LISTS, "params": {"_meta": meta}}
        told = await client.post(
            "/mcp", json=claimed, headers={"mcp-protocol-version": "2031-01-01", "mcp-method": "tools/list"}
        )
        assert told.json()["error"]["code"] == UNSUPPORTED_PROTOCOL_VERSION
        assert "2026-07-28" in told.json()["error"]["data"]["supported"]


async def test_web_pages_are_refused_whatever_they_show(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host, by_hand(host, await host.token()) as client:
        for origin in ("https://evil.example", host.url, "null"):
            refused = await client.post("/mcp", json=OPENS, headers={"origin": origin})
            assert (refused.status_code, refused.json()["error"]["code"]) == (HTTPStatus.FORBIDDEN, "origin")


async def test_who_asks_too_often_waits(tmp_path: Path) -> None:
    async with served(tmp_path, works=False) as host:
        async with by_hand(host, await host.token(per_minute=3)) as client:
            named = await opened(client)
            told = [(await client.post("/mcp", json=LISTS, headers=named)) for _ in range(3)]
        assert [answer.status_code for answer in told] == [200, 200, 429]
        assert int(told[-1].headers["retry-after"]) > 0


async def _untold(_line: str) -> None:
    """Tell nobody."""


@asynccontextmanager
async def limited(folder: Path, limits: McpLimits) -> AsyncGenerator[ApiHost]:
    """Serve MCP with other limits."""
    async with running(folder, configured(), serve=False) as person:
        await person.app.reloader.start(_untold)
        services = api_services(person.app)
        began = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(services, began.set_result, mcp=McpMount(services, limits)))
        try:
            yield ApiHost(person, await began)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


@asynccontextmanager
async def beside(host: ApiHost) -> AsyncGenerator[ApiHost]:
    """Serve the API once more, as another process does: connections of the first are not there."""
    services = api_services(host.app)
    began = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(services, began.set_result))
    try:
        yield ApiHost(host.person, await began)
    finally:
        services.closing.set()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def words(client: httpx2.AsyncClient, named: dict[str, str], **arguments: str) -> str:
    """Return the label of what an agent says, after a call that may raise it."""
    answer = await client.post("/mcp", json=calls("connection", 3, **arguments), headers=named)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return str(json.loads(answer.json()["result"]["content"][0]["text"])["label"])


async def test_a_connection_that_is_lost_passes_its_taint_on(tmp_path: Path) -> None:
    """A client that meets another process opens a connection by itself, and its model goes on with its context."""
    async with served(tmp_path, configured(), works=False) as host, beside(host) as elsewhere:
        token, others = await host.token("crane", Scope.STEER), await host.token("heron", Scope.STEER)
        async with by_hand(host, token) as one, by_hand(elsewhere, token) as two:
            named = await opened(one)
            assert await words(one, named, up_to="INTERNAL~") == "INTERNAL~"
            # Nothing is passed on before the client shows it where it is not.
            assert await words(two, await opened(two)) == "PUBLIC"
            assert (await two.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.NOT_FOUND
            again = await opened(two)
            assert await words(two, again) == "INTERNAL~"
            # It is the token's own, and it stands where it was as well.
            async with by_hand(elsewhere, others) as third:
                assert await words(third, await opened(third)) == "PUBLIC"
            assert await words(one, named) == "INTERNAL~"


async def test_a_connection_that_its_program_ends_passes_nothing_on(tmp_path: Path) -> None:
    async with (
        served(tmp_path, configured(), works=False) as host,
        by_hand(host, await host.token("crane", Scope.STEER)) as client,
    ):
        named = await opened(client)
        assert await words(client, named, up_to="INTERNAL") == "INTERNAL"
        assert (await client.delete("/mcp", headers=named)).status_code == HTTPStatus.OK
        assert (await client.post("/mcp", json=LISTS, headers=named)).status_code == HTTPStatus.NOT_FOUND
        assert await words(client, await opened(client)) == "PUBLIC"


async def test_connections_of_a_token_are_few_and_end_unused(tmp_path: Path) -> None:
    async with limited(tmp_path, McpLimits(most=2, idle=4)) as host:
        mine, theirs = await host.token("crane"), await host.token("heron")
        async with by_hand(host, mine) as one, by_hand(host, theirs) as other:
            # What opens none leaves none behind.
            for _ in range(3):
                assert (await one.post("/mcp", json=LISTS)).status_code == HTTPStatus.BAD_REQUEST
            first, _second = await opened(one), await opened(one)
            busy = await one.post("/mcp", json=OPENS)
            assert (busy.status_code, busy.json()["error"]["code"]) == (HTTPStatus.TOO_MANY_REQUESTS, "busy")
            # Another token has as many of its own.
            await opened(other)

            async def ended() -> bool:
                await asyncio.sleep(4.5)
                return (await one.post("/mcp", json=LISTS, headers=first)).status_code == HTTPStatus.NOT_FOUND

            await eventually(ended)
            await opened(one)


async def test_a_request_is_answered_in_time_or_ended(tmp_path: Path) -> None:
    async with limited(tmp_path, McpLimits(answer=5)) as host, by_hand(host, await host.token()) as client:
        named = await opened(client)
        begun = await client.post("/mcp", json=calls("sessions_spawn", task="hello"), headers=named)
        sid = json.loads(begun.json()["result"]["content"][0]["text"])["session_id"]
        waits = calls("sessions_wait", session_id=sid, seconds=30)
        late = await client.post("/mcp", json=waits, headers=named)
        assert (late.status_code, late.json()["error"]["code"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "unavailable")


async def test_a_call_that_is_cancelled_ends(tmp_path: Path) -> None:
    # Nobody works, so that the session waits.
    async with served(tmp_path, configured(), works=False) as host, agent(host, await host.token()) as one:
        sid = (await one.call("sessions_spawn", task="hello")).json["session_id"]
        with anyio.move_on_after(0.5) as waited:
            await one.call("sessions_wait", session_id=sid, seconds=30)
        assert waited.cancelled_caught
        # The client told that; the connection goes on.
        assert await one.words() == "PUBLIC"


async def test_without_the_library_nothing_is_served_and_the_operator_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "bot.api.mcp_server.endpoint", None)
    async with served(tmp_path, works=False) as host, by_hand(host, await host.token()) as client:
        for _ in range(2):
            answer = await client.post("/mcp", json=OPENS)
            assert error(answer) == (
                HTTPStatus.NOT_IMPLEMENTED,
                {
                    "code": "mcp_missing",
                    "message": "This installation does not serve MCP.",
                    "next_step": "The operator can install `lockgate[mcp]`.",
                },
            )
    assert [record.message for record in caplog.records].count("MCP is not served, as a package is missing") == 1
