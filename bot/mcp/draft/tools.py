"""The tools of a draft: the entry of each in config.yaml, or why it has to be left out.

Every tool is described as cautiously as can be: it sends, others notice it, and it may not be repeated.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError

from bot.config.mcp import LONGEST_NAME, McpToolSettings, is_tool, offered_name
from bot.config.schemas.argument import McpArgument
from bot.mcp.draft.shapes import Shape, UnexpressedError, argument_shapes, result_shape, without_words
from bot.mcp.listing import ServerTool


@dataclass(frozen=True, slots=True)
class DraftedTool:
    """A tool as it would stand in config.yaml, beside the words of its server.

    Args:
        listed: The words of the server.
        offered: The name by which models would call it.
        arguments: Its arguments, with the server's words under `description`.
        output: Its structured result, None if that is not checked.
        unchecked: Why a described result is not checked, empty for no reason.
    """

    listed: ServerTool
    offered: str
    arguments: dict[str, Shape]
    output: Shape | None = None
    unchecked: str = ""

    @property
    def settings(self) -> McpToolSettings:
        """The tool as it is read from config.yaml. Raises ValidationError: it cannot be."""
        return McpToolSettings.model_validate(
            {
                "description": self.description,
                "effect": "send",
                "arguments": {name: without_words(shape) for name, shape in self.arguments.items()},
                "output": None if self.output is None else without_words(self.output),
            }
        )

    @property
    def description(self) -> str:
        """The description until a person writes one: none of its words are the server's."""
        return f"Call the tool {self.listed.name} of an MCP server."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tool that a draft leaves out; its name is the server's."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafted tools of a server, and those left out, by name."""

    server: str
    tools: tuple[DraftedTool, ...] = ()
    left_out: tuple[LeftOut, ...] = field(default=())


def drafted(server: str, listed: Iterable[ServerTool]) -> Draft:
    """Return a draft of these tools of a server."""
    tools, left_out = list[DraftedTool](), list[LeftOut]()
    ordered = sorted(listed, key=lambda tool: tool.name)
    counts = Counter(offered_name(server, tool.name) for tool in ordered)
    for tool in ordered:
        offered = offered_name(server, tool.name)
        try:
            _check_name(tool.name, offered, counts[offered])
            tools.append(_drafted(tool, offered))
        except UnexpressedError as error:
            left_out.append(LeftOut(tool.name, str(error)))
    return Draft(server, tuple(tools), tuple(left_out))


def _check_name(name: str, offered: str, times: int) -> None:
    """Check that a tool can be named in config.yaml. Raises UnexpressedError: it cannot."""
    if not is_tool(name):
        raise UnexpressedError("", "its name has other characters than letters, digits and `_./-`")
    if len(offered) > LONGEST_NAME:
        raise UnexpressedError("", f"`{offered}` is longer than {LONGEST_NAME} characters")
    if times > 1:
        raise UnexpressedError("", f"another tool would be called `{offered}` too")


def _drafted(tool: ServerTool, offered: str) -> DraftedTool:
    """Return one tool. Raises UnexpressedError: its arguments have no description here."""
    arguments = {name: _fitting(shape) for name, shape in argument_shapes(tool.arguments).items()}
    plain = DraftedTool(tool, offered, arguments)
    _check(plain)
    if tool.results is None:
        return plain
    try:
        whole = DraftedTool(tool, offered, arguments, result_shape(tool.results))
        _check(whole)
    except UnexpressedError as error:
        return DraftedTool(tool, offered, arguments, unchecked=str(error))
    return whole


def _fitting(shape: Shape) -> Shape:
    """Return a shape without a default that does not fit it: then the server chooses the value."""
    if "default" not in shape:
        return shape
    try:
        McpArgument.model_validate(without_words(shape))
    except ValidationError:
        return {**{key: value for key, value in shape.items() if key != "default"}, "optional": True}
    return shape


def _check(tool: DraftedTool) -> None:
    """Check that a tool can be read from config.yaml. Raises UnexpressedError: it cannot."""
    try:
        _ = tool.settings
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"] if step not in {"arguments", "[key]", "fields"})
        said = str(first.get("ctx", {}).get("error", first["msg"]))
        raise UnexpressedError(place, said) from None
