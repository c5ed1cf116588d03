"""Arguments as a type: where they hold content, and what is said of arguments that do not fit."""

import re
import time
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st
from pydantic import Field, JsonValue

from bot.config.mcp import McpArgument
from bot.mcp.arguments import arguments_type
from bot.tools.arguments import checked, contents, is_content, types
from bot.tools.background.spawning import SpawnArguments
from bot.tools.base import CONTENT, Arguments, Content, RefusedCallError
from bot.tools.files import WriteArguments
from bot.tools.history import HistoryArguments
from bot.tools.introspection import SimulateArguments
from bot.tools.message import MessageArguments
from bot.tools.references import NO_CONTENT, asked
from bot.tools.sending import SendArguments
from bot.tools.sessions import ListArguments, StatusArguments
from bot.tools.summarize import SummarizeArguments
from bot.tools.web.fetch import FetchArguments
from policy.request import ArgumentRole
from tests.bot.kit import Probe
from tests.harness import running


class Part(Arguments):
    """A part of a text."""

    kind: Literal["a", "b"] = "a"
    text: Content


class Deep(Arguments):
    """Arguments with content at several depths."""

    name: str = ""
    count: int = 0
    text: Content = Field(default="", max_length=5)
    maybe: Content | None = None
    parts: list[Part] = Field(default_factory=list[Part])
    fixed: tuple[Content, ...] = ()
    named: dict[str, Content] = Field(default_factory=dict[str, str])
    either: Content | list[str] = ""
    whole: Annotated[dict[str, JsonValue], CONTENT] | None = None
    loose: dict[str, JsonValue] | None = None
    under: Content = Field(default="", alias="text-2")


REF: JsonValue = {"$ref": "held-a"}


TOOLS = [
    Probe(name=name, arguments=arguments)
    for name, arguments in (
        ("deep", Deep),
        ("fetch", FetchArguments),
        ("history", HistoryArguments),
        ("list", ListArguments),
        ("message", MessageArguments),
        ("send", SendArguments),
        ("simulate", SimulateArguments),
        ("spawn", SpawnArguments),
        ("status", StatusArguments),
        ("summarize", SummarizeArguments),
        ("write", WriteArguments),
    )
]


@pytest.mark.parametrize(
    "given",
    [
        {"text": REF},
        {"maybe": REF},
        {"parts": [{"text": "x"}, {"text": REF}]},
        {"fixed": ["x", REF]},
        {"named": {"any": REF}},
        {"whole": {"deep": [{"deeper": REF}]}},
        {"text-2": REF},
    ],
)
def test_a_reference_may_stand_where_content_is_declared(given: dict[str, JsonValue]) -> None:
    with pytest.raises(RefusedCallError, match="nothing held"):
        asked(Probe(arguments=Deep), given, ())


@pytest.mark.parametrize(
    "given",
    [
        {"name": REF},
        {"count": REF},
        {"parts": REF},
        {"parts": [REF]},
        {"parts": [{"kind": REF, "text": "x"}]},
        {"parts": [{"text": {"more": REF}}, {"unknown": REF}]},
        {"named": REF},
        {"either": REF},
        {"either": [REF]},
        {"loose": REF},
        {"loose": {"deep": [REF]}},
        {"unknown": REF},
        {"under": REF},
        {"text": REF, "name": REF},
    ],
)
def test_a_reference_stands_nowhere_else(given: dict[str, JsonValue]) -> None:
    # Inside of content everything is content; its own type refuses what is no text.
    if given == {"parts": [{"text": {"more": REF}}, {"unknown": REF}]}:
        assert is_content(Deep, ("parts", 0, "text", "more"))
    with pytest.raises(RefusedCallError) as refused:
        asked(Probe(arguments=Deep), given, ())
    assert str(refused.value) == NO_CONTENT


def test_the_places_of_content_are_told_as_they_are_written() -> None:
    assert list(contents(Deep)) == ["text", "maybe", "parts[].text", "fixed[]", "named[]", "whole", "text-2"]
    words = McpArgument(type="string", role=ArgumentRole.CONTENT)
    server = arguments_type(
        "t",
        {
            "to": McpArgument(type="string"),
            "mail": McpArgument(
                type="array",
                items=McpArgument(type="object", fields={"body": words}),
            ),
            "notes": McpArgument(type="array", items=words, optional=True),
        },
    )
    assert list(contents(server)) == ["mail[].body", "notes[]"]
    assert is_content(server, ("mail", 3, "body"))
    assert not is_content(server, ("to",))


@pytest.mark.anyio
async def test_what_the_built_in_tools_call_content_chooses_nothing(tmp_path: Path) -> None:
    """A new one is to be thought about: it must neither choose what is read nor where something goes."""
    async with running(tmp_path) as owner:
        found = {f"{tool.name}.{place}" for tool in owner.app.gate.tools for place in contents(tool.arguments)}
    said = {"message.text", "write_file.text", "sessions_send.content", "inspect.refs[]"}
    assert found == said | {"sessions_spawn.task", "runs_start.goal", "schedule_create.text", "memory.text"}


@pytest.mark.parametrize(
    "tool, given, said",
    [
        ("summarize", {"topic": "x"}, "`topic` is given with scope `topic` only"),
        ("summarize", {"scope": "all"}, "`scope` should be 'session' or 'topic'"),
        ("read_file", {}, "`path` is missing"),
        ("read_file", {"path": 3}, "`path` should be a valid string"),
        ("read_file", {"path": ""}, "`path` should have at least 1 character"),
        ("read_file", {"path": "x", "pth": 1}, "`pth` is not one of its arguments, did you mean `path`?"),
        ("sessions_list", {"limit": 1000}, "`limit` should be less than or equal to 200"),
        ("sessions_spawn", {"task": "x", "limits": 3}, "`limits` should be an object"),
        (
            "sessions_spawn",
            {"task": "x", "limits": {"minutes": 1, "hours": 3}},
            "`limits.hours` is not one of its arguments",
        ),
        ("sessions_spawn", {"task": "x", "returns": {}}, "`returns` should have at least 1 item"),
        ("sessions_spawn", {"task": "x", "returns": {"n": {}}}, "`returns.n` needs a `type`"),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "text"}}},
            "`returns.n` needs a `type` that is one of 'boolean', 'number', 'date', 'enum', 'listed'",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"N": {"type": "boolean"}}},
            "`returns.N` needs a name of small letters, digits and `_` that begins with a letter, at most 32",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "number", "min": 1}}},
            "`returns.n.max` is missing",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "number", "min": "a", "max": 2}}},
            "`returns.n.min` should be a valid integer; `returns.n.min` should be a valid number",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "enum", "values": ["a", 3]}}},
            "`returns.n.values.1` should be a valid string",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "date", "min": "soon"}}},
            "`returns.n` needs `min` and `max` that are days such as 2026-11-22, in order",
        ),
        (
            "sessions_spawn",
            {"task": "x", "returns": {"n": {"type": "number", "min": 1, "max": 0}}},
            "`returns.n` needs `min`, `max` and `step` of at most 15 digits, in order",
        ),
    ],
)
@pytest.mark.anyio
async def test_what_does_not_fit_is_said_in_a_sentence(
    tmp_path: Path, tool: str, given: dict[str, JsonValue], said: str
) -> None:
    async with running(tmp_path, serve=False) as owner:
        found = next(one for one in owner.app.gate.tools if one.name == tool)
    with pytest.raises(RefusedCallError) as refused:
        checked(found, given)
    assert str(refused.value).endswith(f"do not fit: {said}")


def test_arguments_that_fit_nowhere_hold_nobody_up() -> None:
    """A model or a program may make up as many as it likes."""
    found = Probe(name="deep", arguments=Deep)
    given: dict[str, JsonValue] = {f"f{number}": number for number in range(20_000)}
    began = time.thread_time()
    with pytest.raises(RefusedCallError, match=r"`f4` is not one of its arguments, known are [^;]*$"):
        checked(found, given)
    assert time.thread_time() - began < 0.5


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=200), inner, max_size=3),
    max_leaves=6,
)


@examples(st.data())
def test_every_tool_says_what_is_expected(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(TOOLS))
    names = st.sampled_from([*types(tool.arguments), "returns", "scope", "other"])
    given = data.draw(st.dictionaries(names, _JSON, max_size=4))
    try:
        checked(tool, given)
    except RefusedCallError as refused:
        _, _, said = str(refused).partition("do not fit: ")
        assert said
        # Words, neither a library's code nor an empty name, and no more than a line or two.
        assert not re.search(r"\([a-z_]+\)|``|Value error|Input should", said)
        assert len(said) < 1500
