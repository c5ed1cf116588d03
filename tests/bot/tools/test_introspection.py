"""What a session may know of the gate."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.tools.introspection import SimulateArguments, SimulateToolCall
from policy.labels import parse
from tests.bot.kit import CONFIDENTIAL, bang, often, standing, tool_call, tool_context
from tests.harness import running

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = pytest.mark.anyio


async def test_simulating_changes_nothing_and_equals_the_real_call(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        before = await owner.state()
        message: dict[str, JsonValue] = {"channel": "console", "recipient": "guest", "text": "x"}
        shown = await owner.say(bang("simulate_tool_call", tool_name="message", args=message))
        report = json.loads(shown.split("simulate_tool_call: ", 1)[1])
        real = await owner.app.gate.calls.simulate(
            standing(before.taint, sid=owner.sid), "message", message, before.taint
        )
        assert report == real
        assert report["verdict"] == "BLOCK"
        assert (await owner.state()).taint == before.taint == parse("CONFIDENTIAL~")
        assert "→ guest" not in owner.shown


async def test_simulations_are_bounded() -> None:
    tool = SimulateToolCall(often(2))
    arguments = SimulateArguments(tool_name="message", args={})
    assert tool.declare(arguments, tool_context(CONFIDENTIAL)).result == CONFIDENTIAL
    answers = [await tool.run(arguments, *tool_call(CONFIDENTIAL)) for _ in range(3)]
    assert [answer.failed for answer in answers] == [False, False, True]
    assert answers[2].label == CONFIDENTIAL
    assert not (await tool.run(arguments, *tool_call(sid="s2"))).failed
    # A reset forgets how often was asked, too.
    assert not (await tool.run(arguments, *tool_call(generation=2))).failed
