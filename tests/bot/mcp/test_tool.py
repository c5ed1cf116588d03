"""A server's tool is gated like any other: labelled by the policy, told no more than it may be, and audited by name."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.config.mcp import McpServerSettings, McpToolSettings, tool_arguments
from bot.mcp.arguments import LIMIT, passed_on
from bot.mcp.tool import Ask, McpResult, McpTool
from bot.sessions.consents.released_calls import CallRelease
from bot.tools import catalogue
from policy.decision import Verdict
from policy.document.model import Document, load
from policy.labels import Label, parse
from policy.request import Hook
from tests.bot.gate.test_released_calls import approval
from tests.bot.kit import CONFIDENTIAL, DIRTY, bang, gate, note, policy, standing, unrecorded
from tests.bot.mcp.servers import SEARCH, command
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

NAME = "notes__search"
LABELLED = {"notes": {"floor": "INTERNAL", "clearance": "INTERNAL"}}


class Remote:
    """A server that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []

    async def ask(self, ask: Ask) -> McpResult:
        self.asked.append(ask)
        return McpResult("found")


def tool(remote: Remote, **more: JsonValue) -> McpTool:
    settings = McpServerSettings.model_validate(command(tools={"search": {**SEARCH, **more}}))
    return McpTool("notes", "search", settings, remote.ask)


def document(**sections: object) -> Document:
    return load({"mcp_servers": LABELLED, **sections}, tools=[NAME], servers=["notes"])


def asked(word: str = "w", **more: JsonValue) -> Call:
    return Call("c1", NAME, {"word": word, **more})


def test_its_labels_are_the_policys() -> None:
    prepared = gate([tool(Remote())], document()).calls.prepare(standing(), asked())
    assert prepared.decision.verdict is Verdict.ALLOW
    assert prepared.label == parse("INTERNAL~")
    assert prepared.hook is Hook.MCP_TOOL_CALL
    tightened = document(tools={NAME: {"result": "CONFIDENTIAL"}})
    assert gate([tool(Remote())], tightened).calls.prepare(standing(), asked()).label == parse("CONFIDENTIAL~")


@pytest.mark.parametrize("effect", ["none", "read", "write", "send"])
@pytest.mark.parametrize(
    "taint,sections",
    [
        (CONFIDENTIAL, {}),
        (parse("INTERNAL"), {"mcp_servers": {"notes": {"floor": "INTERNAL"}}}),
        (parse("INTERNAL"), {"tools": {NAME: {"clearance": "PUBLIC"}}}),
    ],
    ids=["above", "unknown", "tightened"],
)
def test_it_is_told_no_more_than_its_server_may_know_whatever_its_effect(
    effect: str, taint: Label, sections: dict[str, object]
) -> None:
    prepared = gate([tool(Remote(), effect=effect)], document(**sections)).calls.prepare(standing(taint), asked())
    assert (prepared.decision.verdict, prepared.decision.rules) == (Verdict.BLOCK, ("no_write_down",))


def test_a_call_above_a_server_that_runs_here_may_be_released() -> None:
    """A server with a URL may redirect a call, so none of its calls is offered."""
    owner = {"owner": principal("console:owner", may_release=True)}
    remote = Remote()
    settings = McpServerSettings.model_validate({"url": "https://notes.example.com/mcp", "tools": {"search": SEARCH}})
    away = McpTool("notes", "search", settings, remote.ask)
    for one, release in ((tool(remote), CallRelease("the MCP server notes", parse("INTERNAL"))), (away, None)):
        prepared = gate([one], document(principals=owner)).calls.prepare(standing(CONFIDENTIAL), asked())
        assert prepared.release == release
        assert prepared.decision.verdict is (Verdict.BLOCK if release is None else Verdict.REQUIRE_APPROVAL)
        if release is not None:
            let = gate([one], document(principals=owner)).calls.prepare(
                standing(CONFIDENTIAL), asked(), (approval(prepared, tool=NAME),)
            )
            assert (let.decision.verdict, let.released, let.hook) == (Verdict.ALLOW, "owner", Hook.MCP_TOOL_CALL)


@pytest.mark.parametrize("sections", [{}, {"tools": {NAME: {"result": "PUBLIC"}}}], ids=["unknown", "with a label"])
def test_without_a_label_for_its_server_it_is_not_offered_and_blocks(sections: dict[str, object]) -> None:
    keeper = gate([tool(Remote())], document(mcp_servers={}, **sections))
    assert keeper.tools == ()
    decision = keeper.calls.prepare(standing(), asked()).decision
    assert (decision.verdict, decision.rules) == (Verdict.BLOCK, ("unknown_is_worst",))


def test_it_is_consequential_unless_the_operator_says_otherwise() -> None:
    said = gate([tool(Remote())], document()).calls.prepare(standing(DIRTY), asked()).decision.verdict
    unsaid = gate([tool(Remote(), consequential=True)], document()).calls.prepare(standing(DIRTY), asked()).decision
    assert (said, unsaid.verdict) == (Verdict.ALLOW, Verdict.REQUIRE_APPROVAL)
    assert McpToolSettings(description="x", effect="read").consequential


@pytest.mark.parametrize("hook", ["PRE_TOOL_CALL", "MCP_TOOL_CALL"])
def test_rules_for_all_calls_and_rules_for_servers_both_stop_it(hook: str) -> None:
    keeper = gate([tool(Remote())], document(rules=[{"id": "none", "hook": hook, "action": "BLOCK"}]))
    decision = keeper.calls.prepare(standing(), asked()).decision
    assert (decision.verdict, decision.rules) == (Verdict.BLOCK, ("none",))


@pytest.mark.parametrize("given, verdict", [("/etc/keys", Verdict.BLOCK), ("public/a", Verdict.ALLOW)])
def test_a_condition_about_an_argument_of_that_name_sees_it(given: str, verdict: Verdict) -> None:
    """A rule for every tool that has the argument counts for a server's, too."""
    rule = {
        "id": "no-keys",
        "hook": "PRE_TOOL_CALL",
        "tools": ["read_file", NAME],
        "action": "BLOCK",
        "when": "arg_path.startsWith('/etc')",
    }
    described: dict[str, JsonValue] = {"path": {"type": "string"}}
    known = {**catalogue.ARGUMENTS, **tool_arguments({"notes": {"tools": {"search": {"arguments": described}}}})}
    rules = load({"mcp_servers": LABELLED, "rules": [rule]}, tools=known, servers=["notes"])
    call = Call("c1", NAME, {"path": given})
    assert (
        gate([tool(Remote(), arguments=described)], rules).calls.prepare(standing(), call).decision.verdict is verdict
    )


PAYMENT: dict[str, JsonValue] = {
    "amount": {"type": "number"},
    "count": {"type": "integer", "optional": True},
    "tags": {"type": "array", "items": {"type": "string"}, "optional": True},
}


@pytest.mark.parametrize("hook", ["PRE_TOOL_CALL", "MCP_TOOL_CALL"])
@pytest.mark.parametrize(
    "when,arguments,rules",
    [
        ("arg_amount > 100", {"amount": 100}, ()),
        ("arg_amount > 100", {"amount": 100.5}, ("mine",)),
        ("arg_amount > 100", {"amount": 101}, ("mine",)),
        ("arg_amount > 100", {}, ("fails_closed",)),
        ("arg_amount > 100", {"amount": "101"}, ("fails_closed",)),
        ("arg_amount > 100", {"amount": True}, ("fails_closed",)),
        ("arg_count == 0", {"amount": 1}, ("mine",)),
        ("given_count", {"amount": 1}, ()),
        ("given_count", {"amount": 1, "count": 0}, ("mine",)),
        ("arg_count > 3", {"amount": 1, "count": 2**63}, ("mine",)),
        ("100 / arg_count > 3", {"amount": 1}, ("mine",)),
        ("'secret' in arg_tags", {"amount": 1, "tags": ["a", "secret"]}, ("mine",)),
        ("'secret' in arg_tags", {"amount": 1, "tags": ["a"]}, ()),
    ],
)
def test_a_condition_looks_at_what_a_server_is_called_with(
    hook: str, when: str, arguments: dict[str, JsonValue], rules: tuple[str, ...]
) -> None:
    """What is missing or of another type is refused; what a condition cannot reckon with blocks by its rule."""
    rule = {"id": "mine", "hook": hook, "tools": [NAME], "action": "BLOCK", "when": when}
    known = tool_arguments({"notes": {"tools": {"search": {"arguments": PAYMENT}}}})
    loaded = load({"mcp_servers": LABELLED, "rules": [rule]}, tools=known, servers=["notes"])
    keeper = gate([tool(Remote(), arguments=PAYMENT)], loaded)
    decision = keeper.calls.prepare(standing(), Call("c1", NAME, arguments)).decision
    assert decision.rules == rules
    assert decision.verdict is (Verdict.BLOCK if rules else Verdict.ALLOW)


async def test_what_a_rule_redacts_does_not_reach_it_whatever_its_effect() -> None:
    remote = Remote()
    rule = {"id": "no-cards", "hook": "MCP_TOOL_CALL", "action": "REDACT", "pattern": "payment-card"}
    keeper = gate([tool(remote, effect="none")], document(rules=[rule]))
    prepared = keeper.calls.prepare(standing(), asked("pay 4111 1111 1111 1111 now"))
    await keeper.run(standing(), prepared, unrecorded)
    assert "4111" not in str(remote.asked)
    assert "pay" in str(remote.asked)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"word": 1}, {"word": "w", "other": 1}, {"word": "w", "limit": None}, {"word": "x" * LIMIT}],
    ids=["missing", "type", "unknown", "null", "long"],
)
def test_only_what_is_described_is_passed_on(arguments: dict[str, JsonValue]) -> None:
    decision = gate([tool(Remote())], document()).calls.prepare(standing(), Call("c1", NAME, arguments)).decision
    assert (decision.verdict, decision.rules) == (Verdict.BLOCK, ("fails_closed",))


def test_arguments_of_every_kind_are_described_and_checked() -> None:
    described: dict[str, JsonValue] = {
        "from": {"type": "string", "values": ["a", "b"], "description": "where"},
        "model_config": {"type": "array", "items": {"type": "integer", "description": "how many"}},
        "where": {"type": "object", "fields": {"x": {"type": "number"}, "deep": {"type": "boolean", "optional": True}}},
    }
    made = tool(Remote(), arguments=described).arguments
    schema = made.model_json_schema()
    assert list(schema["properties"]) == list(described)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["from"] == {
        "description": "where",
        "enum": ["a", "b"],
        "title": "from",
        "type": "string",
    }
    given: dict[str, JsonValue] = {"from": "a", "model_config": [1, 2], "where": {"x": 1.5}}
    assert passed_on(made.model_validate(given)) == given
    for wrong in ({"from": "c"}, {"model_config": ["1"]}, {"where": {"x": 1, "y": 2}}):
        with pytest.raises(ValueError, match="validation error"):
            made.model_validate({**given, **wrong})


async def test_a_session_calls_a_real_server_and_what_it_heard_decides_where_it_speaks(tmp_path: Path) -> None:
    config = policy(mcp_servers=LABELLED, blocks={"mcp_servers": {"notes": command()}})
    async with running(tmp_path, config) as owner:
        assert [one.name for one in owner.app.gate.tools if isinstance(one, McpTool)] == [NAME]
        assert all("IMPORTANT" not in one.description for one in owner.app.gate.tools)
        assert "notes__search: 10 notes hold pipeline" in await owner.say(bang(NAME, word="pipeline"))
        assert str((await owner.state()).taint) == "INTERNAL~"
        assert "no_write_down" in await owner.say(note("guest", "10 notes"))
        assert "this tool is not known" in await owner.say(bang("notes__crash"))
        rows = [row.body async for row in owner.app.chains.records(owner.sid)]
        hooks = [row.get("hook") for row in rows if row.get("tool") == NAME]
        assert hooks == ["MCP_TOOL_CALL", "POST_TOOL_RESPONSE"]
