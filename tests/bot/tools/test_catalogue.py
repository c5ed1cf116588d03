"""The built-in tools as a whole, and the clock among them."""

import re
from datetime import datetime
from pathlib import Path

import pytest

from bot.tools import catalogue
from bot.tools.clock import CurrentTime, NoArguments
from policy.labels import PUBLIC
from policy.request import Effect
from tests.bot.kit import NOW, TOP, tool_call, tool_context
from tests.harness import running

pytestmark = pytest.mark.anyio


async def test_the_names_a_policy_may_use_are_those_of_the_tools(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        assert tuple(tool.name for tool in owner.app.gate.tools) == catalogue.NAMES
        assert len(set(catalogue.NAMES)) == len(catalogue.NAMES) == 30


async def test_every_tool_says_what_it_is(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for tool in owner.app.gate.tools:
            assert re.fullmatch(r"[a-z_]{1,40}", tool.name)
            assert tool.description.endswith(".")
            assert tool.effect in Effect
            assert tool.repeatable
            assert tool.arguments.model_json_schema()["additionalProperties"] is False


async def test_the_time_is_the_stores_and_tells_nothing_of_the_session() -> None:
    tool = CurrentTime()
    declared = tool.declare(NoArguments(), tool_context(TOP))
    assert (declared.result, declared.consequential) == (PUBLIC, False)
    told = await tool.run(NoArguments(), *tool_call(TOP))
    assert told.label == PUBLIC
    assert datetime.fromisoformat(told.text).timestamp() * 1000 == NOW
