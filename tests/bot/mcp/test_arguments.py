"""Every shape of argument that servers have is written in config.yaml, told to models, and checked before a call."""

from typing import Any

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.config.mcp import McpServerSettings, tool_arguments
from bot.mcp.arguments import passed_on
from bot.mcp.tool import Ask, McpResult, McpTool
from bot.tools.arguments import checked
from bot.tools.base import RefusedCallError
from policy.conditions.expressions import INT, STRING
from policy.decision import Verdict
from policy.document.model import load
from tests.bot.kit import gate, standing

SEARCH: dict[str, JsonValue] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 500 // 10},
    "order": {"type": "integer", "values": [1, -1], "optional": True},
    "filter": {
        "type": "object",
        "optional": True,
        "fields": {"to": {"type": "string", "nullable": True}, "deep": {"type": "boolean", "default": False}},
        "others": {"type": "number", "minimum": 0},
    },
    "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "unique": True, "optional": True},
    "which": {"any_of": [{"type": "string"}, {"type": "integer"}], "optional": True, "description": "an id"},
    "level": {"values": [1, "auto"], "optional": True},
    "size": {"any_of": [{"type": "integer", "minimum": 1}, {"type": "string", "values": ["all"]}], "optional": True},
}


async def unheard(ask: Ask) -> McpResult:
    return McpResult(ask.tool)


def tool(arguments: dict[str, JsonValue] | None = None) -> McpTool:
    said: dict[str, JsonValue] = {"description": "d", "effect": "read", "arguments": arguments or SEARCH}
    settings = McpServerSettings.model_validate({"command": "x", "tools": {"search": said}})
    return McpTool("notes", "search", settings, unheard)


def sent(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return passed_on(checked(tool(), given))


def test_a_default_is_passed_on_like_any_value_and_nothing_else_is_added() -> None:
    assert sent({}) == {"limit": 50}
    given: dict[str, JsonValue] = {
        "filter": {"to": None, "x": 1.5},
        "tags": ["a"],
        "which": 3,
        "level": "auto",
        "order": -1,
    }
    assert sent(given) == {"limit": 50, **given, "filter": {"to": None, "deep": False, "x": 1.5}}


@pytest.mark.parametrize(
    "given,told",
    [
        ({"limit": 0}, "`limit` should be at least 1"),
        ({"order": True}, "`order` should be a valid integer"),
        ({"order": 2}, "`order` should be one of its values"),
        ({"filter": {"to": "a", "x": -1}}, "`filter.x` should be at least 0"),
        ({"filter": {}}, "`filter.to` is missing"),
        ({"tags": ["A"]}, "`tags.0` should match `^[a-z]+$`"),
        ({"tags": ["a", "a"]}, "`tags` should have no entry twice"),
        ({"level": 2}, "`level` should be one of its values"),
        ({"limit": None}, "`limit` should be a valid integer"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name_before_the_call(given: dict[str, JsonValue], told: str) -> None:
    with pytest.raises(RefusedCallError, match="arguments of `notes__search` do not fit") as refused:
        sent(given)
    assert told in str(refused.value)


def test_the_model_is_told_the_bounds() -> None:
    properties: dict[str, Any] = tool().arguments.model_json_schema()["properties"]
    assert (properties["limit"]["minimum"], properties["limit"]["maximum"], properties["limit"]["default"]) == (
        1,
        100,
        50,
    )
    assert properties["order"]["enum"] == [1, -1]
    assert properties["tags"]["items"]["pattern"] == "^[a-z]+$"
    assert properties["tags"]["uniqueItems"] is True
    assert properties["level"]["enum"] == [1, "auto"]
    assert properties["which"]["description"] == "an id"


@pytest.mark.parametrize("given,rules", [({}, ("mine",)), ({"limit": 10}, ())])
def test_a_condition_sees_the_default_that_is_sent(given: dict[str, JsonValue], rules: tuple[str, ...]) -> None:
    known = tool_arguments({"notes": {"tools": {"search": {"arguments": SEARCH}}}})
    rule = {
        "id": "mine",
        "hook": "MCP_TOOL_CALL",
        "tools": ["notes__search"],
        "action": "BLOCK",
        "when": "arg_limit > 40",
    }
    labels = {"notes": {"floor": "PUBLIC", "clearance": "PUBLIC"}}
    document = load({"mcp_servers": labels, "rules": [rule]}, tools=known, servers=["notes"])
    decision = gate([tool()], document).calls.prepare(standing(), Call("c1", "notes__search", given)).decision
    assert decision.rules == rules
    assert decision.verdict is (Verdict.BLOCK if rules else Verdict.ALLOW)


def test_conditions_know_the_types_of_values() -> None:
    listed: dict[str, JsonValue] = {"a": {"values": ["x", "y"]}, "b": {"values": [1, 2]}, "c": {"values": [1, "x"]}}
    known = tool_arguments({"s": {"tools": {"t": {"arguments": listed}}}})["s__t"]
    assert (known["a"], known["b"], known["c"]) == (STRING, INT, "")
