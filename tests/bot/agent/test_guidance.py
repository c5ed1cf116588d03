"""What a session is told of its tools is true of the tools that it has, and short."""

import re
from pathlib import Path

import pytest

from bot.agent.guidance import guidance
from bot.tools.arguments import is_content, types
from bot.tools.base import WorksInRuns
from bot.tools.references import HOLD, offered
from tests.bot.kit import Probe, Scripted, eventually, parts, proposed
from tests.harness import running

pytestmark = pytest.mark.anyio


async def test_what_it_names_is_there(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        tools = {tool.name: tool for tool in owner.app.gate.tools}
    of_runs = [name for name, tool in tools.items() if isinstance(tool, WorksInRuns)]
    in_run = guidance(tuple(tools.values()), spawns=True)
    assert len(in_run.split()) < 190
    assert set(re.findall(r"`((?:session|steering)_[a-z_]+)`", in_run)) < set(of_runs)
    said = guidance(tuple(tool for name, tool in tools.items() if name not in of_runs), spawns=True)
    assert len(said.split()) < 140
    assert in_run.endswith(said)
    named = re.findall(r"`([a-z_]+)`", said)
    assert set(named) == {"ask_user", "schema", "sessions_spawn", "task", "returns", "admit", "ref"}
    for name, arguments in (("sessions_spawn", ("task", "returns")), ("admit", ("ref",))):
        assert set(arguments) <= set(types(tools[name].arguments))
    places = re.findall(r"`([a-z_]+)\.([a-z_]+)`", said)
    assert ("message", "text") in places
    assert all(is_content(tools[name].arguments, (place,)) for name, place in places)
    assert HOLD in offered(tools["read_file"])["properties"]


async def test_what_is_not_there_is_not_told(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        tools = owner.app.gate.tools
    whole = guidance(tools, spawns=True)
    assert "sessions_spawn`" not in guidance(tools, spawns=False).replace("sessions_spawn.task", "")
    asks = ("ask_user", "To ask your user")
    for missing, words in (asks, ("sessions_spawn", "To delegate"), ("admit", "To read it after all")):
        less = guidance([tool for tool in tools if tool.name != missing], spawns=True)
        assert words in whole
        assert words not in less
        assert missing not in less
    assert guidance([], spawns=True) == ""
    assert "$ref" not in guidance([tool for tool in tools if tool.name in {"read_file", "admit"}], spawns=True)


async def test_a_server_or_another_tool_that_takes_references_is_told_of() -> None:
    assert "`probe.text`" in guidance([Probe()], spawns=True)


async def test_a_session_is_told_as_much_as_it_may_do(tmp_path: Path) -> None:
    model = Scripted(
        [proposed("sessions_spawn", {"task": "go on"})], [proposed("sessions_spawn", {"task": "go on"})], "ok"
    )
    config = '{"model": {"instructions": "be brief"}, "limits": {"background_depth": 1}}'
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.say("hello")
        assert model.instructions[0].startswith("be brief\n\nTo delegate, call `sessions_spawn`")

        async def told() -> bool:
            return any("To delegate" not in told for told in model.instructions)

        # The background session may spawn none, so nothing is said of it.
        await eventually(told)
