"""What a session is told of its tools is true of the tools that it has, and short."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import ModelRequestParameters

from bot.agent.guidance import guidance
from bot.agent.window import estimated
from bot.tools.arguments import is_content, types
from bot.tools.base import Tool, WorksInRuns
from bot.tools.held.conditions import IF
from bot.tools.held.handles import is_handle
from bot.tools.references import ADMIT, HOLD, INSPECT, offered
from policy.request import Effect
from tests.bot.kit import Probe, Scripted, eventually, parts, policy, proposed
from tests.bot.mailbox import Mailbox
from tests.harness import running
from tests.tasks.office import careful, opened

pytestmark = pytest.mark.anyio


async def test_what_it_names_is_there(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        tools = {tool.name: tool for tool in owner.app.gate.tools}
    of_runs = [name for name, tool in tools.items() if isinstance(tool, WorksInRuns)]
    in_run = guidance(tuple(tools.values()), spawns=True)
    assert set(re.findall(r"`((?:session|steering)_[a-z_]+)`", in_run)) < set(of_runs)
    said = guidance(tuple(tool for name, tool in tools.items() if name not in of_runs), spawns=True)
    assert in_run.endswith(said)
    named = set(re.findall(r"`([a-z_]+)`", said))
    delegates = {"sessions_spawn", "task", "returns", "up_to"}
    assert named == {"ask_user", "schema", "inspect", "refs", "text", "admit", "ref"} | delegates
    held = (("inspect", ("refs", "returns", "text")), ("admit", ("ref",)))
    for name, arguments in (("sessions_spawn", ("task", "returns", "up_to")), *held):
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
    inspects = ("inspect", "To learn something of held results")
    for missing, words in (asks, inspects, ("sessions_spawn", "To delegate"), ("admit", "To read one")):
        less = guidance([tool for tool in tools if tool.name != missing], spawns=True)
        assert words in whole
        assert words not in less
        assert missing not in less
    assert IF in whole
    assert IF in offered(next(tool for tool in tools if tool.name == "message"))["properties"]
    assert IF not in guidance(tools, spawns=True, untrusted=True)
    assert IF not in guidance([tool for tool in tools if tool.effect is Effect.READ], spawns=True)
    assert guidance([], spawns=True) == ""
    assert "$ref" not in guidance([tool for tool in tools if tool.name in {"read_file", "admit"}], spawns=True)


async def test_a_server_or_another_tool_that_takes_references_is_told_of() -> None:
    assert "`probe.text`" in guidance([Probe()], spawns=True)


async def test_a_spared_session_is_told_of_ids_and_handles(tmp_path: Path) -> None:
    ids, handles = "Some results are kept out by themselves", "stands for an identifier"
    mails = Mailbox().tools
    said = guidance(mails, spawns=True, spares=True)
    assert ids in said
    assert handles in said
    assert is_handle("mail", re.findall(r"`(mail-[a-z0-9-]+)`", said)[0])
    assert '"entry": 1}` is the first identifier' in said
    assert '"entry"' not in guidance(mails, spawns=True, spares=True, untrusted=True)
    assert '"entry"' not in guidance([Probe()], spawns=True, spares=True)
    assert ids not in guidance(mails, spawns=True)
    assert handles not in guidance(mails, spawns=True)
    assert handles not in guidance([Probe()], spawns=True, spares=True)
    model = Scripted("ok")
    policies = (policy(), policy(hold="untrusted"), policy(tools={"read_file": {"hold": "untrusted"}}))
    told = [await _told(tmp_path / str(number), config) for number, config in enumerate(policies)]
    assert [ids in one for one in told] == [False, True, True]
    place = tmp_path / "read"
    place.mkdir()
    async with running(place, policy(hold="untrusted"), parts=parts(model=model)) as owner:
        await owner.say("hello")
        await owner.say("/taint raise PUBLIC~")
        await owner.say("hello again")
        first, *_, last = model.instructions
    assert (ids in first, ids in last) == (True, False)


async def _told(folder: Path, config: str) -> str:
    model = Scripted("ok")
    await asyncio.to_thread(folder.mkdir)
    async with running(folder, config, parts=parts(model=model)) as owner:
        await owner.say("hello")
    return model.instructions[0]


async def test_questions_are_told_of_where_a_call_may_be_asked_about(tmp_path: Path) -> None:
    asks, hold, read = "in one step, up to 10", "Hold the text of others", "You have read the text"
    assert [words in guidance([Probe()], spawns=True) for words in (asks, hold, read)] == [False, False, False]
    writing = [Probe(effect=Effect.WRITE)]
    assert [words in guidance(writing, spawns=True) for words in (asks, hold, read)] == [True, True, False]
    untrusted = guidance(writing, spawns=True, untrusted=True)
    assert [words in untrusted for words in (asks, hold, read)] == [True, False, True]
    model = Scripted([proposed("read_file", {"path": "public/welcome.md"})], "ok")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("read it")
    first, last = model.instructions
    assert (hold in first, read in first) == (True, False)
    assert (hold in last, read in last) == (False, True)


async def test_all_of_it_is_short(tmp_path: Path) -> None:
    """At most 600 tokens, by the estimate of the window: the instructions, and what the gate says in descriptions."""
    plain, office = tmp_path / "plain", tmp_path / "office"
    plain.mkdir()
    async with running(plain, serve=False) as owner:
        shipped = owner.app.gate.tools
    office.mkdir()
    async with opened(office, careful(), Scripted()) as room:
        tools = room.app.gate.tools
    many = [Probe(name=f"{name}_{number}", effect=Effect.SEND) for name in ("probe", "other") for number in range(40)]
    for every in (shipped, tools, [*tools, *many]):
        plain_talk = [tool for tool in every if not isinstance(tool, WorksInRuns)]
        for untrusted in (True, False):
            talk = guidance(plain_talk, spawns=True, proposes=True, spares=not untrusted, untrusted=untrusted)
            run = guidance(every, spawns=True, spares=not untrusted, untrusted=untrusted)
            assert max(_tokens(talk, plain_talk), _tokens(run, every)) <= 600


def _tokens(told: str, tools: Sequence[Tool]) -> int:
    """Return about how many tokens the instructions have, together with the gate's sentences in the tools."""
    of_gate = [tool.description for tool in tools if tool.name in {ADMIT, INSPECT}]
    for tool in tools:
        of_gate += [offered(tool).get("properties", {}).get(HOLD, {}).get("description", "")]
    request = ModelRequest(parts=[], instructions="".join((told, *of_gate)))
    return estimated([request], ModelRequestParameters())


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
