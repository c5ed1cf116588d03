"""The differences between a server's list of tools and config.yaml.

An argument that the operator described more narrowly is no difference: only names, types and needs are compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from bot.config.mcp import McpToolSettings
from bot.config.schemas.argument import McpArgument
from bot.mcp.draft.document import quoted
from bot.mcp.draft.shapes import Shape
from bot.mcp.draft.tools import Draft

_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference: `kind` is new, gone, changed or unwritable; the tool's name is the server's or the operator's."""

    kind: str
    tool: str
    details: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The difference in one line, with nothing in it that a terminal would obey."""
        said = f": {'; '.join(self.details)}" if self.details else ""
        return f"{self.kind:<10}  {quoted(self.tool, _NAME)}{said}"


def differences(draft: Draft, configured: Mapping[str, McpToolSettings]) -> Iterator[Difference]:
    """Yield the differences between a server's tools and the configured ones, sorted by kind and name."""
    now = {tool.listed.name: tool for tool in draft.tools}
    out = {one.name: one.why for one in draft.left_out}
    for name in sorted(configured.keys() & now.keys()):
        if details := tuple(_changes(now[name].arguments, configured[name].arguments)):
            yield Difference("changed", name, details)
    for name in sorted(configured.keys() - now.keys() - out.keys()):
        yield Difference("gone", name)
    for name in sorted(now.keys() - configured.keys()):
        yield Difference("new", name)
    for name, why in sorted(out.items()):
        yield Difference("unwritable", name, (why,))


def _changes(now: Mapping[str, Shape], configured: Mapping[str, McpArgument]) -> Iterator[str]:
    for name in sorted(now.keys() - configured.keys()):
        yield f"takes `{name}` too" if "optional" in now[name] or "default" in now[name] else f"needs `{name}`"
    for name in sorted(configured.keys() - now.keys()):
        yield f"has no `{name}`"
    for name in sorted(now.keys() & configured.keys()):
        theirs, ours = _types(now[name]), _configured(configured[name])
        if theirs != ours:
            yield f"`{name}` is {theirs}, not {ours}"
        elif not configured[name].needed and "optional" not in now[name] and "default" not in now[name]:
            yield f"needs `{name}`"


def _types(shape: Shape) -> str:
    choices = cast("list[Shape] | None", shape.get("any_of"))
    if choices is not None:
        return " or ".join(sorted({_types(one) for one in choices}))
    if "type" in shape:
        return str(shape["type"])
    return "one of its values"


def _configured(argument: McpArgument) -> str:
    if argument.any_of is not None:
        return " or ".join(sorted({_configured(one) for one in argument.any_of}))
    return "one of its values" if argument.type is None else argument.type
