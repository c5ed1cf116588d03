"""Arguments as a type: where they hold content, and what is said of arguments that do not fit."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, JsonValue

from bot.config.mcp import McpArgument
from bot.mcp.arguments import arguments_type
from bot.tools.arguments import contents, is_content
from bot.tools.base import CONTENT, Arguments, Content, RefusedCallError
from bot.tools.references import NO_CONTENT, asked
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
    server = arguments_type(
        "t",
        {
            "to": McpArgument(type="string"),
            "mail": McpArgument(
                type="array",
                items=McpArgument(type="object", fields={"body": McpArgument(type="string", content=True)}),
            ),
            "notes": McpArgument(type="array", items=McpArgument(type="string", content=True), optional=True),
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
    assert found == {"message.text", "write_file.text", "sessions_send.content", "sessions_spawn.task"}
