"""`/tools` tells what the agent is offered for the person who asks, and no label above them."""

from pathlib import Path

import pytest

from tests.bot.kit import policy
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio


async def test_tools_are_grouped_and_have_labels(tmp_path: Path) -> None:
    tools = {"current_time": {"result": "CONFIDENTIAL"}}
    config = policy(principals={"owner": principal("console:owner")}, tools=tools)
    async with running(tmp_path, config, serve=False) as person:
        told = await person.say("/tools")
        offered = {tool.name for tool in person.app.gate.tools if not getattr(tool, "in_runs", False)}
        assert {name for name in offered if name not in told} == set()
        assert "Reads: read_file, " in told
        assert "web_fetch (PUBLIC~)" in told
        assert "current_time (CONFIDENTIAL)" in told
        assert "Write it as `/tools`" in await person.say("/tools x")


async def test_a_label_above_the_asker_is_not_told(tmp_path: Path) -> None:
    tools = {"current_time": {"result": "CONFIDENTIAL"}}
    people = {"owner": principal("console:owner", clearance="INTERNAL")}
    async with running(tmp_path, policy(principals=people, tools=tools), serve=False) as person:
        told = await person.say("/tools")
        assert "current_time (above here)" in told
        assert "CONFIDENTIAL" not in told
