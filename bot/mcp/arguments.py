"""The argument type of an MCP tool, made of its configuration.

Names are kept as aliases, since the server's may not be valid in Python. Unknown arguments are refused at every depth,
so that only described ones are passed on.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, create_model
from pydantic.config import JsonDict

from bot.config.mcp import McpArgument
from bot.tools.arguments import as_json
from bot.tools.base import Arguments, Content

LIMIT: Final = 100_000
"""Characters of the arguments of one call, as JSON."""

_SIMPLE: Final[Mapping[str, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}


def arguments_type(name: str, arguments: Mapping[str, McpArgument]) -> type[Arguments]:
    """Return the type of a tool's arguments, called `name` in its schema."""
    fields: dict[str, Any] = {
        f"argument_{number}": (_type(one, f"{name}_{number}"), _field(alias, one))
        for number, (alias, one) in enumerate(arguments.items())
    }
    return create_model(name, __base__=Arguments, **fields)


def passed_on(arguments: Arguments) -> dict[str, JsonValue]:
    """Return checked arguments as the server takes them, without unset ones."""
    return as_json(arguments, given=True)


def _field(alias: str, argument: McpArgument) -> Any:  # noqa: ANN401 - the type of pydantic's Field
    described = argument.description or None
    if argument.optional:
        return Field(None, alias=alias, title=alias, description=described, json_schema_extra=_without_default)
    return Field(alias=alias, title=alias, description=described)


def _without_default(schema: JsonDict) -> None:
    """Say nothing of null, which is no value of an argument that may be left out."""
    schema.pop("default", None)


def _type(argument: McpArgument, name: str) -> Any:  # noqa: ANN401 - a type as pydantic takes it
    if argument.values is not None:
        return Literal[tuple(argument.values)]
    if argument.items is not None:
        return list[_described(argument.items, f"{name}_item")]
    if argument.fields is not None:
        return arguments_type(name, argument.fields)
    return Content if argument.content else _SIMPLE[argument.type]


def _described(argument: McpArgument, name: str) -> Any:  # noqa: ANN401 - as above
    kind = _type(argument, name)
    return Annotated[kind, Field(description=argument.description)] if argument.description else kind
