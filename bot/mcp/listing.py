"""A tool as its server lists it: nothing but data, which a draft for a person is made of (ADR 0009)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class ServerTool:
    """The words of a server about a tool of it, scrubbed of secrets.

    Args:
        name: Its own name for the tool.
        description: Its description.
        arguments: The JSON Schema of the arguments.
        results: The JSON Schema of the structured results, None if it has none.
        hints: Its claims about the effect, such as `readOnlyHint`.
    """

    name: str
    description: str = ""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    results: Mapping[str, JsonValue] | None = None
    hints: tuple[str, ...] = ()
