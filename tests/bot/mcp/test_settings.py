"""What config.yaml says about servers is checked when it is read, each mistake by line."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.config.load import load_config
from bot.core.errors import ConfigError
from bot.tools.catalogue import ARGUMENTS, NAMES
from tests.harness import running

TOOL: dict[str, JsonValue] = {"description": "d", "effect": "read"}
PAYS: dict[str, JsonValue] = {
    "to": {"type": "string", "values": ["ann", "bob"]},
    "count": {"type": "integer"},
    "amount": {"type": "number"},
    "now": {"type": "boolean", "optional": True},
    "tags": {"type": "array", "items": {"type": "string"}},
    "days": {"type": "array", "items": {"type": "integer"}},
    "how": {"type": "object", "fields": {"amount": {"type": "number"}}},
    "per-day": {"type": "number"},
}


def told(tmp_path: Path, servers: JsonValue, labels: JsonValue = None) -> str:
    """Return what is said about a configuration, without the places."""
    path = tmp_path / "config.yaml"
    given = {"a": {"floor": "PUBLIC"}} if labels is None else labels
    path.write_text(json.dumps({"mcp_servers": servers, "policy": {"mcp_servers": given}}))
    try:
        load_config(path, {}, NAMES)
    except ConfigError as error:
        return "\n".join(line.partition(": ")[2] for line in str(error).splitlines())
    return ""


def test_names_of_tools_are_known_to_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    servers = {"a": {"command": "x", "tools": {"b.c": TOOL}}}
    rule = {"id": "r", "hook": "MCP_TOOL_CALL", "tools": ["a__*"], "action": "BLOCK"}
    labelled = {
        "mcp_servers": {"a": {"floor": "PUBLIC"}},
        "tools": {"a__b_c": {"clearance": "PUBLIC"}},
        "rules": [rule],
    }
    path.write_text(json.dumps({"mcp_servers": servers, "policy": labelled}))
    for known in (NAMES, {name: {"x": "string"} for name in NAMES}):
        assert set(load_config(path, {}, known).policy.tools) == {"a__b_c"}


@pytest.mark.parametrize(
    "server,said",
    [
        ({"tools": {}}, "a server has either `command` or `url`"),
        (
            {"command": "x", "tools": {"t": {**TOOL, "arguments": {"n": {"type": "integer", "role": "content"}}}}},
            "role `content` belongs to type `string` without `values`, others choose something",
        ),
        ({"command": "x", "url": "http://x", "tools": {}}, "a server has either `command` or `url`"),
        ({"url": "http://x", "env": {"A": "b"}, "tools": {}}, "`args` and `env` belong to a `command`"),
        ({"command": "x", "headers": {"A": "b"}, "tools": {}}, "`headers` belong to a `url`"),
        (
            {"url": "ftp://x", "tools": {}},
            "a server's address begins with `http://` or `https://` and holds no password",
        ),
        (
            {"url": "http://u:p@x", "tools": {}},
            "a server's address begins with `http://` or `https://` and holds no password",
        ),
        (
            {"url": "https:///x", "tools": {}},
            "a server's address names a host, and a port if it has another than usual",
        ),
        (
            {"url": "https://x:y", "tools": {}},
            "a server's address names a host, and a port if it has another than usual",
        ),
        ({"command": "x", "env": {"A": "${secret:B}"}, "tools": {}}, "a secret is referred to as `${secret:name}`"),
        (
            {"command": "x", "args": ["${secret:b}"], "tools": {}},
            "a secret belongs into `env`, others on this machine can read the arguments of a process",
        ),
        (
            {"url": "https://x?k=${secret:b}", "tools": {}},
            "a secret belongs into `headers`, an address is written into logs",
        ),
        (
            {"url": "http://example.com", "headers": {"A": "${secret:b}"}, "tools": {}},
            "a secret is sent over https:// alone, or within your own network",
        ),
        (
            {"url": "http://93.184.216.34", "headers": {"A": "${secret:b}"}, "tools": {}},
            "a secret is sent over https:// alone, or within your own network",
        ),
        ({"command": "x", "env": {"A=B": "c"}, "tools": {}}, "`A=B` is not the name of a variable"),
        ({"command": "x"}, "`tools` is missing, add it"),
        ({"command": "x", "tools": 3}, "`tools` must be a block of fields"),
        ({"command": "x", "tool": {}, "tools": {}}, "unknown field `tool`, did you mean `tools`?"),
        ({"command": "x", "tools": {"b": {"effect": "read"}}}, "`description` is missing, add it"),
        (
            {"command": "x", "tools": {"b": {**TOOL, "consequental": True}}},
            "unknown field `consequental`, did you mean `consequential`?",
        ),
        (
            {"command": "x", "tools": {"b" * 62: TOOL}},
            f"`a__{'b' * 62}` is longer than 64 characters, give the server a shorter name",
        ),
        (
            {"command": "x", "tools": {"b.c": TOOL, "b_c": TOOL}},
            "another tool is called `a__b_c` too",
        ),
    ],
)
def test_a_server_that_cannot_be_is_refused(tmp_path: Path, server: JsonValue, said: str) -> None:
    assert told(tmp_path, {"a": server}) == said


@pytest.mark.parametrize(
    "argument,said",
    [
        (
            {"type": "object"},
            "type `object` needs `fields` or `open`, parts that are not described here are not passed on",
        ),
        ({"type": "array"}, "type `array` needs `items`, parts that are not described here are not passed on"),
        ({"type": "integer", "values": ["1"]}, "`values` of type `integer` must each be a whole number"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(tmp_path: Path, argument: JsonValue, said: str) -> None:
    assert told(tmp_path, {"a": {"command": "x", "tools": {"b": {**TOOL, "arguments": {"c": argument}}}}}) == said


def test_arguments_do_not_nest_without_end(tmp_path: Path) -> None:
    argument: JsonValue = {"type": "string"}
    for _ in range(8):
        argument = {"type": "array", "items": argument}
    said = told(tmp_path, {"a": {"command": "x", "tools": {"b": {**TOOL, "arguments": {"c": argument}}}}})
    assert said == "arguments nest at most 8 deep"


def test_server_and_label_belong_together(tmp_path: Path) -> None:
    server: JsonValue = {"a": {"command": "x", "tools": {}}}
    assert told(tmp_path, server) == ""
    assert told(tmp_path, server, {}) == "`a` has no label, add it to `policy.mcp_servers`"
    assert told(tmp_path, {}) == "unknown MCP server `a`"
    assert "is not the name of a server" in told(tmp_path, {"A b": {"command": "x", "tools": {}}})


def judged(folder: Path, when: str, *tools: str) -> str:
    """Return what is said, with its line, about a condition on the arguments of a server's tool."""
    rule = {"id": "r", "hook": "MCP_TOOL_CALL", "tools": list(tools or ["a__pay"]), "when": when, "action": "BLOCK"}
    policy = {"mcp_servers": {"a": {"floor": "PUBLIC"}}, "rules": [rule]}
    servers = {"a": {"command": "x", "tools": {"pay": {**TOOL, "arguments": PAYS}}}}
    path = folder / "config.yaml"
    path.write_text(f"mcp_servers: {json.dumps(servers)}\npolicy: {json.dumps(policy)}\n")
    try:
        load_config(path, {}, ARGUMENTS)
    except ConfigError as error:
        return str(error).removeprefix(f"{path}:")
    return ""


@pytest.mark.parametrize(
    "when",
    [
        "arg_to == 'ann'",
        "arg_count > 3",
        "arg_amount > 3 && arg_amount < 0.5",
        "arg_now",
        "given_now",
        "'x' in arg_tags",
        "size(arg_tags) > 3",
    ],
)
def test_a_condition_knows_the_arguments_that_the_operator_described(tmp_path: Path, when: str) -> None:
    assert judged(tmp_path, when) == ""


@pytest.mark.parametrize(
    "when,said",
    [
        ("arg_amuont > 3", "unknown variable `arg_amuont`, did you mean `arg_amount`?"),
        ("arg_amount == '3'", "`==` joins a number with a fraction with a text, which never fit"),
        ("arg_count > 0.5", "`>` joins a whole number with a number with a fraction, which never fit"),
        ("arg_days == 3", "`arg_days` cannot be looked at, it is neither text nor number nor list of texts"),
        ("arg_how == 3", "`arg_how` cannot be looked at, it is neither text nor number nor list of texts"),
        ("arg_per_day > 3", "`per-day` of `a__pay` cannot be named in a condition, a pattern sees it"),
        ("arg_path == '/'", "`arg_path` is an argument of `list_files`, name that tool under `tools`"),
    ],
)
def test_a_condition_on_what_was_not_described_is_refused_by_line(tmp_path: Path, when: str, said: str) -> None:
    told = judged(tmp_path, when)
    assert told.startswith("2: ")
    assert told.endswith(said)


def test_a_condition_on_an_argument_of_another_type_elsewhere_is_refused(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "tools": {"b": {**TOOL, "arguments": {"path": {"type": "integer"}}}}}}
    rule = {"id": "r", "hook": "PRE_TOOL_CALL", "tools": ["read_file", "a__b"], "when": "arg_path > 3"}
    policy = {"mcp_servers": {"a": {"floor": "PUBLIC"}}, "rules": [{**rule, "action": "BLOCK"}]}
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"mcp_servers": servers, "policy": policy}))
    with pytest.raises(ConfigError, match="is a text in one tool and a whole number in another, write a rule for each"):
        load_config(path, {}, ARGUMENTS)


@pytest.mark.anyio
async def test_a_reload_reads_the_servers_of_the_file_again(tmp_path: Path) -> None:
    servers = {"a": {"command": "x", "tools": {"pay": {**TOOL, "arguments": PAYS}}}}
    policy: dict[str, object] = {"mcp_servers": {"a": {"floor": "PUBLIC"}}}
    async with running(tmp_path, json.dumps({"mcp_servers": servers, "policy": policy})) as owner:
        rule = {"id": "little", "hook": "MCP_TOOL_CALL", "tools": ["a__pay"], "when": "arg_amount > 3"}
        policy["rules"] = [{**rule, "action": "BLOCK"}]
        written = json.dumps({"mcp_servers": servers, "policy": policy})
        await asyncio.to_thread((tmp_path / "config.yaml").write_text, written)
        assert "is in force" in await owner.say("/policy reload")
        assert "little" in await owner.say("/policy")
