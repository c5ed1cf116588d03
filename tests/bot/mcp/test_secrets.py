"""A server is given secrets by reference: granted, decided and audited at every call, unseen in what it says."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from mcp import types
from pydantic import JsonValue

from bot.config.load import load_config
from bot.config.mcp import McpServerSettings
from bot.core.errors import ConfigError
from bot.mcp.results import CUT, LONGEST, taken_in
from bot.mcp.tool import LOCKED, Ask, McpResult, McpTool
from bot.tools.catalogue import NAMES
from tests.bot.kit import Services, bang, policy, tool_context
from tests.bot.mcp.servers import command, serving, shell
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

VALUE = "tok-4711-and-more"
LABELLED = {"notes": {"floor": "PUBLIC", "integrity": "TRUSTED"}}
QUIET: dict[str, JsonValue] = {"description": "d", "effect": "read", "consequential": False}
GIVEN = {"KEY": VALUE}


def config(entry: Mapping[str, JsonValue], *hosts: str, **sections: object) -> str:
    """Return a configuration with one server, all of whose tools may use the secret."""
    secret = {"env": "KEY", "tools": ["notes__*"], "hosts": list(hosts)}
    blocks = {"mcp_servers": {"notes": entry}, "secrets": {"token": secret}}
    return policy(mcp_servers=LABELLED, **sections, blocks=blocks)


async def hooks(owner: Person) -> list[tuple[object, object]]:
    bodies = [row.body async for row in owner.app.chains.records(owner.sid)]
    return [(body.get("hook"), body.get("secret")) for body in bodies if "tool" in body]


async def test_a_process_is_given_the_value_and_whatever_it_says_of_it_is_scrubbed(tmp_path: Path) -> None:
    entry = command(env={"TOKEN": "Bearer ${secret:token}"}, tools={"environment": QUIET})
    async with running(tmp_path, config(entry), environment=GIVEN) as owner:
        assert "Bearer [secret: token]" in await owner.say(bang("notes__environment"))
        assert await hooks(owner) == [
            ("MCP_TOOL_CALL", None),
            ("SECRET_ACCESS", "token"),
            ("POST_TOOL_RESPONSE", None),
        ]
        assert VALUE not in owner.shown + str(await owner.events())
        assert VALUE not in str([row async for row in owner.app.chains.records(owner.sid)])


async def test_a_header_is_sent_with_the_value_to_the_host_it_is_for(tmp_path: Path) -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not seen.done():
            seen.set_result(head.decode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        entry: dict[str, JsonValue] = {
            "url": f"http://{host}/mcp",
            "headers": {"Authorization": "Bearer ${secret:token}"},
            "tools": {"search": QUIET},
        }
        async with running(tmp_path, config(entry, host), environment=GIVEN) as owner:
            assert "is not running" in await owner.say(bang("notes__search"))
    assert f"Bearer {VALUE}" in await seen


async def test_without_the_secret_no_server_is_started(tmp_path: Path) -> None:
    rule = {"id": "none", "hook": "SECRET_ACCESS", "action": "BLOCK"}
    entry = shell(f"touch {tmp_path}/started; exit 1", env={"TOKEN": "${secret:token}"})
    entry["tools"] = {"search": QUIET}
    async with running(tmp_path, config(entry, rules=[rule]), environment=GIVEN) as owner:
        assert "Rule `none`" in await owner.say(bang("notes__search"))
        assert not (tmp_path / "started").exists()
    async with running(tmp_path, config(entry), environment=GIVEN) as owner:
        assert "is not running" in await owner.say(bang("notes__search"))
        assert (tmp_path / "started").exists()


async def test_a_secret_that_is_refused_while_it_runs_keeps_the_call_from_the_server() -> None:
    asked = list[object]()

    async def send(ask: Ask) -> McpResult:
        asked.append(ask)
        return McpResult("found")

    async def refuse(text: str, host: str) -> None:
        asked.append((text, host))

    entry = {"url": "https://mcp.example.com", "headers": {"A": "${secret:token}"}, "tools": {"search": QUIET}}
    tool = McpTool("notes", "search", McpServerSettings.model_validate(entry), send)
    result = await tool.run(tool.arguments(), tool_context(), Services(revealing=refuse))
    assert (result.text, result.failed) == (LOCKED, True)
    assert asked == [("${secret:token}", "mcp.example.com")]


async def test_no_echo_is_left_in_what_operators_read() -> None:
    def scrub(text: str) -> str:
        return text.replace(VALUE, "[secret: token]")

    script = 'echo "$(printf %0390d 0) $TOKEN" >&2; sleep 0.5; exit 1'
    async with serving(shell(script, env={"TOKEN": VALUE}), {"PATH": "/usr/bin:/bin"}, scrub) as call:
        await call("search", word="w")
        assert "[secret" in call.servers.complaint("notes")
        assert VALUE[:4] not in call.servers.complaint("notes")


def test_no_half_of_a_value_is_left_where_a_result_is_cut() -> None:
    content: list[types.ContentBlock] = [types.TextContent(text="x" * (LONGEST - 4) + VALUE)]
    text = taken_in(types.CallToolResult(content=content), lambda text: text.replace(VALUE, "[secret: token]")).text
    assert text == "x" * (LONGEST - 4) + "[sec" + CUT


# --- what config.yaml may say ----------------------------------------------------------------------

PROCESS: dict[str, JsonValue] = {"command": "x", "env": {"A": "${secret:token}"}, "tools": {"b": QUIET, "c": QUIET}}
REACHED: dict[str, JsonValue] = {"url": "https://API.example.com/mcp", "headers": {"A": "${secret:token}"}, "tools": {}}


def told(folder: Path, entry: Mapping[str, JsonValue], **secrets: object) -> str:
    path = folder / "config.yaml"
    blocks = {"mcp_servers": {"notes": entry}, "secrets": secrets}
    path.write_text(policy(mcp_servers=LABELLED, blocks=blocks))
    try:
        load_config(path, {}, NAMES)
    except ConfigError as error:
        return "\n".join(line.partition(": ")[2] for line in str(error).splitlines())
    return ""


@pytest.mark.parametrize(
    "entry,secrets,said",
    [
        (PROCESS, {"token": {"env": "K", "tools": ["notes__*"]}}, ""),
        (PROCESS, {"token": {"env": "K", "tools": ["notes__b", "notes__c"]}}, ""),
        (PROCESS, {"tokens": {"env": "K"}}, "unknown secret `token`, did you mean `tokens`?"),
        (
            PROCESS,
            {"token": {"env": "K", "tools": ["notes__b"]}},
            "`notes__c` may not use the secret `token`, add `notes__*` to `secrets.token.tools`",
        ),
        (REACHED, {"token": {"env": "K", "hosts": ["api.example.com"]}}, ""),
        (
            REACHED,
            {"token": {"env": "K", "hosts": ["api.example.com:8443"]}},
            "the secret `token` is not for `api.example.com`, add it to `secrets.token.hosts`",
        ),
        ({**REACHED, "url": "http://[::1]:80/mcp"}, {"token": {"env": "K", "hosts": ["[::1]:80"]}}, ""),
        ({**REACHED, "url": "http://mcp:9000"}, {"token": {"env": "K", "hosts": ["mcp:9000"]}}, ""),
        (
            PROCESS | {"env": {}},
            {"token": {"env": "K", "tools": ["other__*"]}},
            "unknown tool `other__*`, did you mean `notes__*`?",
        ),
    ],
)
def test_a_secret_is_for_all_tools_of_a_server_and_its_host(
    tmp_path: Path, entry: dict[str, JsonValue], secrets: dict[str, object], said: str
) -> None:
    assert told(tmp_path, entry, **secrets) == said


def test_all_tools_of_a_server_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    servers = {"a": {"command": "x", "tools": {"b": QUIET}}, "a__b": {"command": "x", "tools": {"c": QUIET}}}
    blocks = {"mcp_servers": servers, "secrets": {"token": {"env": "K", "tools": ["a__*", "web_fetch"]}}}
    labelled = {server: {"floor": "PUBLIC"} for server in servers}
    path.write_text(json.dumps({**blocks, "policy": {"mcp_servers": labelled}}))
    assert load_config(path, {}, NAMES).secrets["token"].tools == ["a__b", "web_fetch"]
