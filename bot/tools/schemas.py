"""The JSON schema of a tool's arguments as models are offered it: without words that tell them nothing.

Schemas go with every request to a model, so each word of them is paid for in each step. Pydantic writes a title beside
each name, repeats a union's choices as a discriminator, and offers null for each argument that may be left out.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, cast

from bot.tools.base import Arguments

_NAMED: Final = frozenset({"$defs", "patternProperties", "properties"})
"""The keywords with a schema under each name."""

_LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""The keywords with a list of schemas."""

_NESTED: Final = frozenset({"additionalProperties", "items"})
"""The keywords with one schema, or with true or false."""

_UNTOLD: Final = frozenset({"discriminator", "title"})
_NULL: Final = MappingProxyType({"type": "null"})

Schema = Mapping[str, Any]


@lru_cache(maxsize=256)
def offered_schema(arguments: type[Arguments]) -> Schema:
    """Return the schema of arguments, which takes milliseconds to make; nobody changes it.

    It admits all values that the tool takes, but no null for an argument that may be left out. A tool has its own
    description, so that of the arguments as a whole is left out.
    """
    schema = _brief(arguments.model_json_schema())
    return {name: value for name, value in schema.items() if name != "description"}


def _brief(schema: Schema) -> dict[str, Any]:
    brief = {name: _part(name, value) for name, value in schema.items() if name not in _UNTOLD}
    required = brief.get("required", ())
    if "properties" in brief:
        named = brief["properties"].items()
        brief["properties"] = {name: one if name in required else _left_out(one) for name, one in named}
    return brief


def _part(keyword: str, value: Any) -> Any:  # noqa: ANN401 - a part of a schema may be any JSON
    if keyword in _NAMED:
        return {name: _brief(one) for name, one in cast("Mapping[str, Schema]", value).items()}
    if keyword in _LISTED:
        return [_brief(one) for one in cast("list[Schema]", value)]
    return _brief(cast("Schema", value)) if keyword in _NESTED and isinstance(value, dict) else value


def _left_out(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument that may be left out, without the null that says the same."""
    choices: list[Schema] = schema.get("anyOf", [])
    if _NULL not in choices or schema.get("default", "") is not None:
        return schema
    rest = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    choices = [one for one in choices if one != _NULL]
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}
