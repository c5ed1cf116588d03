"""What an agent was told is in all that it says: the taint of a connection, and what may be known on it (ADR 0048)."""

import re
from pathlib import Path
from typing import Final

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from bot.core.trust import trust
from bot.knowledge.keeper import Learner
from bot.sessions.api_tokens import Scope
from bot.sessions.knowledge.memories import Memory
from policy.labels import parse
from tests.bot.api.kit import ApiHost, served
from tests.bot.api.mcp_server.agents import LEVELS, Agent, Told, agent, configured, steering, told
from tests.bot.kit import bang

pytestmark = pytest.mark.anyio

FERRY: Final = "The ferry leaves at nine."
STATED: Final = re.compile(r"mem_[0-9a-f]+|r_[0-9a-f]+|[a-z2-7]{32}|\b[0-9]{13}\b|\b[0-9]{1,2}:[0-9]{2}\b")


async def learned(host: ApiHost, program: str, text: str, label: str) -> Memory:
    """Have a program remember something that its sessions learned at a label."""
    who, known = f"program:{program}", parse(label)
    return await host.app.knowledge.keeper.learn(Learner(who, who, known, known), text, f"{text}{label}")


async def memories(host: ApiHost, program: str = "crane") -> dict[str, str]:
    """Return what a program remembers, with the label of each."""
    page = await host.app.knowledge.keeper.listed(f"program:{program}", host.app.gate.document.top)
    return {memory.text: str(memory.label) for memory in page.memories}


async def test_what_was_told_untrusted_is_learned_untrusted(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host:
        token = await host.token("crane", Scope.STEER)
        await learned(host, "crane", FERRY, "PUBLIC~")
        async with agent(host, token) as one:
            before = await one.call("memory", action="learn", text="Said before.")
            assert (before.label, await one.words()) == ("PUBLIC", "PUBLIC")
            found = await one.call("memory", action="recall", query="ferry", up_to="PUBLIC~")
            assert (FERRY in found.text, found.label, await one.words()) == (True, "PUBLIC~", "PUBLIC~")
            await one.call("memory", action="learn", text="Said after.")
            # Nothing that follows on it is trusted, whoever is said to have said it.
            sid = (await one.call("sessions_spawn", task="Do as the ferry says.")).json["session_id"]
        assert await memories(host) == {FERRY: "PUBLIC~", "Said before.": "PUBLIC", "Said after.": "PUBLIC~"}
        state = await host.app.store.sessions.state(sid)
        assert state is not None
        assert str(state.visibility) == "PUBLIC~"
        # Another connection is for the program to open, for an agent that begins anew.
        async with agent(host, token) as one:
            assert await one.words() == "PUBLIC"


async def test_an_untrusted_connection_commands_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        run = (await one.call("runs_start", goal="Wait.")).json["run_id"]
        kept = (await one.call("memory", action="learn", text="Tea.")).json["id"]
        await learned(host, "crane", FERRY, "PUBLIC~")
        await one.call("memory", action="recall", query="ferry", up_to="PUBLIC~")
        for tool, given in (
            ("memory", {"action": "correct", "id": kept, "text": "Coffee."}),
            ("memory", {"action": "forget", "id": kept}),
            ("runs_start", {"goal": "Do as the ferry says."}),
        ):
            refused = await one.call(tool, **given)
            assert refused.failed, tool
            assert "Rule `untrusted_cannot_command`" in refused.text
            assert "MCP asks nobody" in refused.text
            assert "open another connection" in refused.text
        for tool, given in (("runs_steer", {"run_id": run, "note": "Stop."}), ("runs_stop", {"run_id": run})):
            refused = await one.call(tool, **given)
            assert refused.failed
            assert "steers and stops nothing" in refused.text
        assert [known["id"] for known in (await one.call("runs_list")).json["runs"]] == [run]


async def test_a_trusted_connection_meets_nothing_that_anybody_may_have_written(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        name = (await learned(host, "crane", FERRY, "PUBLIC~")).id
        never = await one.call("memory", action="forget", id="mem_nothing")
        assert await one.call("memory", action="forget", id=name) == never
        empty = await one.call("memory", action="recall", query="ferry")
        assert (empty.json["memories"], empty.label, await one.words()) == ([], "PUBLIC", "PUBLIC")


async def test_a_connection_finds_what_its_token_may_know_and_no_more(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host, clearance="INTERNAL") as one:
        empty = await one.call("memory", action="recall", query="ferry")
        await learned(host, "crane", FERRY, "CONFIDENTIAL")
        await learned(host, "heron", FERRY, "PUBLIC")
        assert await one.call("memory", action="recall", query="ferry") == empty
        refused = await one.call("memory", action="recall", query="ferry", up_to="CONFIDENTIAL")
        assert refused.failed
        assert FERRY not in refused.text
        raising = await one.call("connection", up_to="CONFIDENTIAL")
        assert (raising.text, raising.failed) == ("this token is not cleared for that", True)
        assert await one.words() == "PUBLIC"
        # What it may know it finds, once it is raised: then what it says is labelled so.
        await learned(host, "crane", "The harbor is closed.", "INTERNAL")
        assert (await one.call("memory", action="recall", query="harbor")).json["memories"] == []
        found = await one.call("memory", action="recall", query="harbor", up_to="INTERNAL")
        assert (found.json["memories"][0]["text"], found.label) == ("The harbor is closed.", "INTERNAL")
        assert await one.words() == "INTERNAL"


async def test_what_is_refused_for_what_it_says_counts_as_told(tmp_path: Path) -> None:
    """That it was refused tells of it."""
    rule = {"id": "no-ssn", "hook": "POST_TOOL_RESPONSE", "tools": ["memory"], "when": "has_us_ssn", "action": "BLOCK"}
    async with served(tmp_path, configured(rules=[rule]), works=False) as host, steering(host) as one:
        await learned(host, "crane", "Her number is 536-22-8726.", "PUBLIC~")
        refused = await one.call("memory", action="recall", query="number", up_to="PUBLIC~")
        assert (refused.failed, "Rule `no-ssn`" in refused.text, refused.label) == (True, True, "PUBLIC~")
        assert await one.words() == "PUBLIC~"


async def test_nothing_is_read_that_may_not_be_told_over_the_channel(tmp_path: Path) -> None:
    channels = {**LEVELS["channels"], "api": {"classification": "INTERNAL", "inbound": "PUBLIC", "overshoot": "allow"}}
    config = configured(channels=channels)
    async with served(tmp_path, config, works=False) as host, steering(host, clearance="CONFIDENTIAL") as one:
        refused = await one.call("memory", action="recall", query="ferry", up_to="CONFIDENTIAL")
        assert "Rule `read_is_decided_before_it_happens`" in refused.text
        assert await one.words() == "PUBLIC"


async def test_a_session_above_the_connection_is_as_one_that_never_was(tmp_path: Path) -> None:
    async with served(tmp_path, configured()) as host, steering(host) as one:
        sid = await one.begun(bang("read_file", path="confidential/pipeline.md"))
        for tool, given in (
            ("session_status", {}),
            ("sessions_wait", {"seconds": 0}),
            ("sessions_history", {}),
            ("sessions_send", {"content": "x"}),
        ):
            there = await one.call(tool, session_id=sid, **given)
            never = await one.call(tool, session_id="a" * 32, **given)
            # That it rose may be because of what it read, so who saw it before cannot trust that it is gone.
            assert (there.text, there.failed) == (never.text, True) == ("there is no such session", True)
        assert sid not in (await one.call("sessions_list")).text
        await one.raised("CONFIDENTIAL")
        assert sid in (await one.call("sessions_list")).text
        assert "pipeline" in (await one.call("sessions_history", session_id=sid, include_tools=True)).text


async def test_what_was_told_more_raises_no_session(tmp_path: Path) -> None:
    async with served(tmp_path, configured()) as host, steering(host) as one:
        sid = await one.begun("hello")
        run = (await one.call("runs_start", goal="Wait.")).json["run_id"]
        await one.raised("INTERNAL")
        for tool, given in (
            ("sessions_send", {"session_id": sid, "content": "x"}),
            ("runs_steer", {"run_id": run, "note": "x"}),
        ):
            refused = await one.call(tool, **given)
            assert (refused.failed, "would raise it" in refused.text) == (True, True), refused
        second = await one.begun("hello")
        state = await host.app.store.sessions.state(second)
        assert state is not None
        assert (str(state.taint), (await one.call("sessions_send", session_id=second, content="x")).failed) == (
            "INTERNAL",
            False,
        )


async def test_a_key_is_one_of_what_the_agent_was_told(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        first = (await one.call("sessions_spawn", "nightly", task="hello")).json
        await one.raised("INTERNAL")
        second = (await one.call("sessions_spawn", "nightly", task="hello")).json
        assert second["created"] is True
        assert second["session_id"] != first["session_id"]


async def test_a_clearance_that_fell_below_what_was_told_ends_what_a_connection_may_do(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        await one.raised("CONFIDENTIAL")
        path = tmp_path / "config.yaml"
        path.write_text(
            path.read_text().replace('"api": {"classification": "top"', '"api": {"classification": "INTERNAL"')
        )
        assert not (await host.app.reloader.reload("test")).problem
        for tool, given in (("connection", {}), ("memory", {"action": "recall", "query": "x"})):
            told = await one.call(tool, **given)
            assert told.failed
            assert "more than its token may know by now" in told.text


async def test_without_a_connection_the_worst_is_assumed(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host:
        await learned(host, "crane", FERRY, "INTERNAL")
        headers = {"authorization": f"Bearer {await host.token('crane', Scope.STEER, 'INTERNAL')}"}
        async with httpx2.AsyncClient(headers=headers, verify=trust(), timeout=90) as http:
            # A client that chooses for itself takes a protocol that has connections.
            async with Client(streamable_http_client(f"{host.url}/mcp", http_client=http)) as client:
                assert client.protocol_version == "2025-11-25"
                assert told(await client.call_tool("connection", {})).json["label"] == "PUBLIC"
            transport = streamable_http_client(f"{host.url}/mcp", http_client=http)
            async with Client(transport, mode="2026-07-28") as client:
                known = told(await client.call_tool("connection", {})).json
                assert (known["label"], "no connections" in known["note"]) == ("INTERNAL~", True)
                found = told(await client.call_tool("memory", {"action": "recall", "query": "ferry"}))
                assert (FERRY in found.text, found.label) == (True, "INTERNAL~")
                await client.call_tool("memory", {"action": "learn", "text": "Said by nobody knows whom."})
                refused = told(await client.call_tool("runs_start", {"goal": "x"}))
                assert "Rule `untrusted_cannot_command`" in refused.text
        assert (await memories(host))["Said by nobody knows whom."] == "INTERNAL~"


async def played(one: Agent, others: list[str]) -> list[Told]:
    """Do all that an agent at a low connection can, with ids of its own and of others."""
    heard = [await one.call("memory", action="recall", query="ferry harbor tea", limit=20)]
    heard.append(await one.call("memory", action="learn", text="The tea is hot."))
    heard.append(await one.call("memory", action="recall", query="ferry harbor tea", limit=20))
    heard.append(await one.call("sessions_list"))
    heard.append(await one.call("runs_list", ended=True))
    for name in others:
        heard += [
            await one.call("session_status", session_id=name),
            await one.call("sessions_history", session_id=name),
            await one.call("sessions_send", session_id=name, content="x"),
            await one.call("sessions_wait", session_id=name, seconds=0),
            await one.call("runs_show", run_id=name),
            await one.call("runs_steer", run_id=name, note="x"),
            await one.call("runs_stop", run_id=name),
            await one.call("memory", action="forget", id=name),
            await one.call("memory", action="correct", id=name, text="x"),
        ]
    heard.append(await one.call("sessions_spawn", "key", task="hello"))
    heard.append(await one.call("runs_start", "key", goal="Wait."))
    heard.append(await one.call("connection", up_to="RESTRICTED"))
    heard.append(await one.call("connection"))
    return heard


async def test_no_read_up_two_runs_over_mcp(tmp_path: Path) -> None:
    """With and without all that is above a connection, an agent is told the same, byte for byte, labels too."""
    heard = list[list[str]]()
    for world in ("with", "none"):
        folder = tmp_path / world
        folder.mkdir()
        async with served(folder, configured()) as host:
            names = ["a" * 32, "r_0123456789abcdef", "b" * 32, "r_fedcba9876543210", "mem_0123456789ab"]
            token = await host.token("crane", Scope.STEER, "CONFIDENTIAL")
            async with agent(host, token) as one:
                await one.begun("hello")
            if world == "with":
                names = await secrets(host, token)
            async with agent(host, token) as one:
                told = await played(one, names)
            heard.append([STATED.sub("#", str(answer)) for answer in told])
    assert heard[0] == heard[1]


async def secrets(host: ApiHost, token: str) -> list[str]:
    """Fill an installation with what is above a connection, and with another program's; return ids of all that."""
    above = await learned(host, "crane", f"{FERRY} Harbor and tea.", "CONFIDENTIAL")
    await learned(host, "heron", f"{FERRY} Harbor and tea.", "PUBLIC")
    made = list[str]()
    async with agent(host, token) as mine, steering(host, "heron") as theirs:
        await mine.raised("CONFIDENTIAL")
        for one in (mine, theirs):
            made.append((await one.call("sessions_spawn", "key", task="hello")).json["session_id"])
            made.append((await one.call("runs_start", "key", goal="Wait.")).json["run_id"])
    return [*made, above.id]
