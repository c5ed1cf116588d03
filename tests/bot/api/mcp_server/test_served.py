"""Tools over MCP, driven by the official client: what a token is offered, and what calls of them come to."""

from pathlib import Path
from typing import Final

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from bot.api.mcp_server.served import SERVED
from bot.sessions.api_tokens import Scope
from bot.tools.base import Result
from tests.bot.api.kit import served
from tests.bot.api.mcp_server.agents import Agent, agent, configured, steering
from tests.bot.kit import Probe, parts

pytestmark = pytest.mark.anyio

READING: Final = [
    *("session", "memory", "skill", "sessions_list", "sessions_history", "session_status"),
    *("connection", "sessions_wait", "simulate_tool_call", "runs_list", "runs_show"),
]
ACTING: Final = ["runs_start", "sessions_spawn", "sessions_send", "runs_steer", "runs_stop"]
NUMBER: Final = "536-22-8726"


async def unknown(one: Agent, tool: str) -> tuple[int, str]:
    """Call a tool that is none for an agent; return the error as it is told of any name."""
    with pytest.raises(MCPError) as error:
        await one.call(tool)
    return error.value.code, error.value.message.replace(tool, "NAME")


async def test_a_token_is_offered_what_its_scope_is_for_and_nothing_else_is_there(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host:
        async with agent(host, await host.token("heron", Scope.READ)) as one:
            assert sorted(await one.tools()) == sorted(READING)
            never = await unknown(one, "nothing_of_that_name")
            assert never == (INVALID_PARAMS, "Unknown tool: NAME")
            # Forbidden, not served, and of other agents' turns alone: as what there is not.
            for name in (*ACTING, "write_file", "message", "session_initialize"):
                assert await unknown(one, name) == never, name
            learning = await one.call("memory", action="learn", text="The ferry leaves at nine.")
            assert (learning.failed, learning.text) == (
                True,
                "the token of this connection may only read, so `action` of `memory` may only be `recall`",
            )
            writing = await one.call("skill", action="rollback", skill_id="x", version=1)
            assert writing.text.endswith("may only be `list`, `versions` or `audit_log`")
            listed = {tool.name: tool for tool in (await one.client.list_tools()).tools}
            assert listed["memory"].input_schema["properties"]["action"]["enum"] == ["recall"]
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in listed.values())
        async with steering(host) as one:
            assert sorted(await one.tools()) == sorted([*READING, *ACTING])


async def test_schemas_are_the_tools_own_and_of_json_schema(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        tools = {tool.name: tool for tool in host.app.gate.tools}
        built_in = {served.name: served for served in SERVED}
        for listed in (await one.client.list_tools()).tools:
            Draft202012Validator.check_schema(listed.input_schema)
            assert listed.input_schema["type"] == "object"
            assert listed.description
            if listed.name in built_in:
                assert listed.input_schema == tools[listed.name].arguments.model_json_schema()
                assert listed.description == (built_in[listed.name].about or tools[listed.name].description)
            # Over MCP nobody is asked anything.
            assert "is asked first" not in (listed.description or "").replace("Nobody is asked first", "")


async def test_what_the_policy_keeps_from_members_is_not_there(tmp_path: Path) -> None:
    tools = {name: {"roles": ["owner"]} for name in ("memory", "runs_start", "sessions_send")}
    async with served(tmp_path, configured(tools=tools), works=False) as host, steering(host) as one:
        gone = {"memory", "runs_start", "runs_list", "runs_show", "runs_steer", "runs_stop", "sessions_send"}
        assert sorted(await one.tools()) == sorted({*READING, *ACTING} - gone)
        never = await unknown(one, "nothing_of_that_name")
        for name in gone:
            assert await unknown(one, name) == never


async def test_arguments_that_do_not_fit_are_told_by_their_names(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        for tool, given, said in (
            ("memory", {"action": "nope"}, "`action` should be 'learn', 'recall', 'correct' or 'forget'"),
            ("memory", {"action": "recall"}, "memory with action `recall` needs `query`"),
            ("memory", {"action": "recall", "query": "x", "label": "PUBLIC"}, "`label` is not one of its arguments"),
            ("memory", {"action": "recall", "query": "x", "_hold": True}, "`_hold` and `_if` mean nothing here"),
            (
                "memory",
                {"action": "learn", "text": "x", "_if": {"answer": "a", "field": "b"}},
                "`_hold` and `_if` mean nothing here",
            ),
            ("sessions_send", {"content": "x"}, "`session_id` is missing"),
            ("sessions_spawn", {"task": "x", "sender": "owner"}, "`sender` is not one of its arguments"),
            ("sessions_spawn", {"task": "x", "agent": "nobody"}, "agent"),
            ("connection", {"up_to": "SECRET"}, "unknown level `SECRET`"),
            ("runs_list", {"cursor": "x"}, "cursor"),
            ("session_status", {}, "there is no such session"),
        ):
            told = await one.call(tool, **given)
            assert told.failed, (tool, given)
            assert said in told.text.lower() or said in told.text, told.text


async def test_the_same_key_is_the_same_call(tmp_path: Path) -> None:
    async with served(tmp_path, configured()) as host, steering(host) as one:
        learned = [(await one.call("memory", key, action="learn", text="Tea.")).json["id"] for key in "aab"]
        assert learned[0] == learned[1] != learned[2]
        begun = [(await one.call("sessions_spawn", key, task="hello")).json for key in "aab"]
        assert begun[0]["session_id"] == begun[1]["session_id"] != begun[2]["session_id"]
        assert [one["created"] for one in begun] == [True, False, True]
        other = await one.call("sessions_spawn", "a", task="goodbye")
        assert (other.failed, "another content" in other.text) == (True, True)
        with pytest.raises(MCPError) as error:
            await one.call("connection", "x" * 257)
        assert error.value.code == INVALID_PARAMS


async def test_sessions_are_begun_sent_to_read_and_listed(tmp_path: Path) -> None:
    async with served(tmp_path, configured()) as host, steering(host) as one:
        sid = await one.begun("hello")
        sent = await one.call("sessions_send", session_id=sid, content="and more")
        assert sent.json["session_id"] == sid
        rested = await one.call("sessions_wait", session_id=sid, seconds=30)
        assert rested.json["status"] == "idle"
        history = (await one.call("sessions_history", session_id=sid)).json["entries"]
        assert [entry["text"] for entry in history][:3] == ["hello", "You said: hello", "and more"]
        assert [one["id"] for one in (await one.call("sessions_list")).json["sessions"]] == [sid]
        state = await host.app.store.sessions.state(sid)
        assert state is not None
        await host.app.lifecycle.archive(state, "program:crane")
        over = await one.call("sessions_send", session_id=sid, content="x")
        assert (over.failed, over.text) == (True, "that session has ended, nothing can be sent to it")


async def test_runs_are_started_shown_steered_and_stopped(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        run = (await one.call("runs_start", "nightly", goal="File the reports.")).json["run_id"]
        assert (await one.call("runs_start", "nightly", goal="File the reports.")).json["run_id"] == run
        assert [known["id"] for known in (await one.call("runs_list")).json["runs"]] == [run]
        assert (await one.call("runs_show", run_id=run)).json["id"] == run
        steered = await one.call("runs_steer", run_id=run, note="Only the newest.", priority="urgent")
        assert not steered.failed
        assert (await one.call("runs_show", run_id=run)).json["waiting_notes"] == 1
        stopped = [await one.call("runs_stop", run_id=run) for _ in range(2)]
        assert [told.json for told in stopped] == [{"run_id": run, "status": "stopping"}] * 2
        for tool in ("runs_show", "runs_steer", "runs_stop"):
            more = {"note": "x"} if tool == "runs_steer" else {}
            told = await one.call(tool, run_id="r_nothing", **more)
            assert (told.failed, told.text) == (True, "there is no such run")


async def test_rules_of_the_policy_count_as_for_a_session(tmp_path: Path) -> None:
    number = {"id": "no-numbers", "hook": "PRE_TOOL_CALL", "tools": ["sessions_send"], "action": "REDACT"}
    number |= {"pattern": "us-ssn", "when": "has_us_ssn"}
    blocked = {"id": "no-spawn", "hook": "PRE_TOOL_CALL", "tools": ["sessions_spawn"], "action": "BLOCK"}
    blocked |= {"when": 'arg_task == "never"', "message": "never begin this"}
    asks = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["memory"], "action": "REQUIRE_APPROVAL"}
    asks |= {"when": 'arg_action == "learn"', "message": "people look at what is learned"}
    config = configured(rules=[number, blocked, asks])
    async with served(tmp_path, config) as host, steering(host) as one:
        sid = await one.begun("hello")
        assert not (await one.call("sessions_send", session_id=sid, content=f"it is {NUMBER}")).failed
        await one.call("sessions_wait", session_id=sid)
        assert NUMBER not in (await one.call("sessions_history", session_id=sid)).text
        never = await one.call("sessions_spawn", task="never")
        assert never.failed
        assert "Rule `no-spawn`: never begin this" in never.text
        asked = await one.call("memory", action="learn", text="Tea.")
        assert asked.failed
        assert "Needs an approval: memory." in asked.text
        assert "MCP asks nobody" in asked.text


async def test_rules_about_what_leaves_count_for_what_agents_are_told(tmp_path: Path) -> None:
    rule = {"id": "no-ssn", "hook": "PRE_OUTPUT", "channels": ["api"], "when": "has_us_ssn", "pattern": "us-ssn"}
    for action in ("REDACT", "BLOCK"):
        config = configured(rules=[{**rule, "action": action}])
        folder = tmp_path / action
        folder.mkdir()
        async with served(folder, config, works=False) as host, steering(host) as one:
            await one.call("memory", action="learn", text=f"Her number is {NUMBER}.")
            told = await one.call("memory", action="recall", query="number")
            assert NUMBER not in told.text
            assert told.failed is (action == "BLOCK")


async def test_what_the_policy_holds_is_not_told(tmp_path: Path) -> None:
    config = configured(tools={"memory": {"hold": True}})
    async with served(tmp_path, config, works=False) as host, steering(host) as one:
        await one.call("memory", action="learn", text="The ferry leaves at nine.")
        told = await one.call("memory", action="recall", query="ferry")
        assert (told.text, told.label) == (
            "the call was made, and the policy keeps the results of `memory` out of contexts",
            "PUBLIC",
        )


async def test_a_simulation_tells_what_the_call_comes_to(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host, clearance="INTERNAL") as one:
        for args, verdict in (({"query": "x"}, "ALLOW"), ({"query": "x", "up_to": "CONFIDENTIAL"}, "BLOCK")):
            asked = {"tool_name": "memory", "args": {"action": "recall", **args}}
            assert (await one.call("simulate_tool_call", **asked)).json["verdict"] == verdict
            assert (await one.call("memory", action="recall", **args)).failed is (verdict == "BLOCK")


async def test_a_tool_of_a_name_in_the_list_is_served_as_it_is(tmp_path: Path) -> None:
    half = Probe("session", result=Result("half a character: \ud800"))
    async with served(tmp_path, configured(), parts=parts(half), works=False) as host, steering(host) as one:
        assert (await one.tools())[0] == "session"
        told = await one.call("session", text="x")
        assert (told.text, told.failed) == ("half a character: \\ud800", False)


async def test_what_is_done_and_told_is_in_the_audit_before(tmp_path: Path) -> None:
    async with served(tmp_path, configured(), works=False) as host, steering(host) as one:
        await one.call("memory", action="recall", query="tea")
        await one.call("sessions_send", session_id="nobody", content="tea")
        await one.call("runs_list")
        async with host.client(await host.token("auditor")) as client:
            rows = (await client.get("/v1/audit", params={"limit": 200})).json()["rows"]
    decided = [row["body"] for row in rows if row["kind"] == "decision" and row["actor"] == "program:crane"]
    assert sorted((body["hook"], body.get("tool")) for body in decided) == [
        ("POST_TOOL_RESPONSE", "memory"),
        ("PRE_OUTPUT", None),
        ("PRE_OUTPUT", None),
        ("PRE_OUTPUT", None),
        ("PRE_TOOL_CALL", "memory"),
        ("PRE_TOOL_CALL", "sessions_send"),
    ]
