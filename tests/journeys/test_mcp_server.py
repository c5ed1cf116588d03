"""Another agent, which is the official client of MCP, works with Lockgate: at its token's clearance and no more.

It does so on the standard input and output of `lockgate mcp serve`, whose sessions `lockgate run` works, and over HTTP.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.bot.api.crew import Crew
from tests.bot.api.mcp_server.agents import Agent, configured
from tests.bot.api.mcp_server.test_endpoint import LISTS, OPENS
from tests.bot.kit import bang
from tests.journeys.forked import inherited
from tests.journeys.guide import free_port, lines_match, reader, steps
from tests.journeys.machine import Machine
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

FERRY: Final = "The ferry to the island leaves at nine."
SECRET: Final = bang("read_file", path="confidential/pipeline.md")


@asynccontextmanager
async def crew(folder: Path) -> AsyncGenerator[Crew]:
    """Run an installation with an API, and a worker beside it."""
    (folder / "config.yaml").write_text(configured(), "utf-8")
    place = await SERVERS.place(folder / ".bot")
    crew = Crew(Machine(folder), place)
    try:
        await crew.start("api")
        await crew.start("worker")
        yield crew
    finally:
        await crew.end()


async def token(crew: Crew, name: str, clearance: str, scope: str = "steer") -> str:
    """Make a token as the owner does."""
    words = ("token", "create", name, "--scope", scope, "--clearance", clearance, "--expires", "1h")
    ended = await asyncio.to_thread(crew.machine.run, *words, **crew.environment)
    assert ended.code == 0, ended.err
    return ended.out.strip()


@asynccontextmanager
async def on_stdio(folder: Path, text: str, environment: Mapping[str, str]) -> AsyncGenerator[Agent]:
    """Start `lockgate mcp serve` as an agent's host does, and connect to it."""
    variables = {**inherited(), **environment, "LOCKGATE_TOKEN": text}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "bot", "mcp", "serve"], env=variables, cwd=folder
    )
    with (folder / "errors").open("w+", encoding="utf-8") as errors:
        async with stdio_client(command, errors) as streams, ClientSession(*streams) as client:
            await client.initialize()
            yield Agent(client)


@asynccontextmanager
async def over_http(url: str, text: str) -> AsyncGenerator[Agent]:
    """Connect over HTTP."""
    headers = {"authorization": f"Bearer {text}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as streams,
        ClientSession(*streams) as client,
    ):
        await client.initialize()
        yield Agent(client)


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_another_agent_starts_a_session_recalls_and_sends_to_a_session(tmp_path: Path, way: str) -> None:
    async with crew(tmp_path) as running:
        low, high = await token(running, "crane", "INTERNAL"), await token(running, "heron", "CONFIDENTIAL")

        def connected(text: str):  # noqa: ANN202 - a block with an agent
            if way == "http":
                return over_http(running.urls["api"], text)
            return on_stdio(tmp_path, text, running.environment)

        async with connected(low) as agent:
            await agent.call("memory", action="learn", text=FERRY, domain="travel")
            sid = await agent.begun("hello")
            assert not (await agent.call("sessions_send", session_id=sid, content="and more")).failed
            await agent.call("sessions_wait", session_id=sid)
            said = [entry["text"] for entry in (await agent.call("sessions_history", session_id=sid)).json["entries"]]
            assert said == ["hello", "You said: hello", "and more", "You said: and more"]
            # What its sessions may not read they do not, and what is above it is not there.
            refused = await agent.begun(SECRET)
            told = await agent.call("sessions_history", session_id=refused, include_tools=True)
            assert "no_read_up" in told.text or "read_is_decided_before_it_happens" in told.text
            above = await agent.call("memory", action="recall", query="ferry", up_to="CONFIDENTIAL")
            assert above.failed
        async with connected(low) as agent:
            # What one connection learned another one recalls.
            found = await agent.call("memory", action="recall", query="when does the ferry leave")
            assert (found.json["memories"][0]["text"], found.label) == (FERRY, "PUBLIC")
        async with connected(high) as agent:
            assert (await agent.call("memory", action="recall", query="ferry")).json["memories"] == []
            assert (await agent.call("sessions_list")).json["sessions"] == []
            other = await agent.call("sessions_send", session_id=sid, content="hello from another program")
            assert (other.text, other.failed) == ("there is no such session", True)
            read = await agent.begun(SECRET)
            assert read not in (await agent.call("sessions_list")).text
            await agent.raised("CONFIDENTIAL")
            assert read in (await agent.call("sessions_list")).text


async def test_processes_share_all_but_connections(tmp_path: Path) -> None:
    async with crew(tmp_path) as running:
        await running.start("api-2")
        first, second = running.urls["api"], running.urls["api-2"]
        text = await token(running, "crane", "INTERNAL")
        async with over_http(first, text) as agent:
            await agent.call("memory", action="learn", text=FERRY)
        async with over_http(second, text) as agent:
            assert (await agent.call("memory", action="recall", query="ferry")).json["memories"][0]["text"] == FERRY
        shown = {"authorization": f"Bearer {text}", "accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=shown, timeout=60) as http:
            named = {"mcp-session-id": (await http.post(f"{first}/mcp", json=OPENS)).headers["mcp-session-id"]}
            told = [(await http.post(f"{url}/mcp", json=LISTS, headers=named)).status_code for url in (first, second)]
            assert told == [200, 404]
            await asyncio.to_thread(running.machine.run, "token", "revoke", "crane", **running.environment)
            assert (await http.post(f"{first}/mcp", json=LISTS, headers=named)).status_code == 401


async def test_a_token_that_is_revoked_ends_what_an_agent_may(tmp_path: Path) -> None:
    async with crew(tmp_path) as running:
        text = await token(running, "crane", "INTERNAL")
        async with on_stdio(tmp_path, text, running.environment) as agent:
            assert await agent.words() == "PUBLIC"
            await asyncio.to_thread(running.machine.run, "token", "revoke", "crane", **running.environment)
            with pytest.raises(MCPError) as error:
                await agent.words()
        assert error.value.message == "This needs a token that is valid now."
        # The token is in no line of the log.
        assert text not in (tmp_path / "errors").read_text("utf-8")


async def test_what_is_missing_is_told_in_a_sentence(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text(configured(), "utf-8")
    place = await SERVERS.place(machine.data)
    for more, said in (
        ({}, "`LOCKGATE_TOKEN` is not set\nset it to a token"),
        ({"LOCKGATE_TOKEN": "lg_x_y"}, "the token in `LOCKGATE_TOKEN` does not count\nset it to a token"),
    ):
        ended = await asyncio.to_thread(machine.run, "mcp", "serve", **place, **more)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
        assert "Traceback" not in ended.err


async def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    async with reader(Machine(tmp_path), free_port()) as following:
        taken = steps("docs/mcp-server.md", "Connect a client")
        for block, after in zip(taken, [*taken[1:], None], strict=True):
            match block.words[0]:
                case "yaml":
                    following.configure(block.text, {})
                case "python":
                    (tmp_path / "agent.py").write_text(following.here(block.text), "utf-8")
                case "sh" if block.text.startswith("lockgate run --role "):
                    await following.starts(block.text.removeprefix("lockgate run --role ").strip())
                case "sh":
                    await following.listening()
                    printed = await following.types(block.text)
                    if after is not None and after.words[0] == "text":
                        assert lines_match(after.text, printed), printed
                case _:
                    pass
