"""The argument type of an MCP tool, made of its configuration.

Names are kept as aliases, since the server's may not be valid in Python. Unknown arguments are refused at every depth,
so that only described ones are passed on; an object takes others only if the operator calls it open. A value that the
operator gives in place of one that was left out is passed on like any other, so that rules see it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, Union, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    create_model,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import CoreSchema

from bot.config.schemas.argument import McpArgument, Scalar
from bot.tools.arguments import as_json
from bot.tools.base import Arguments, RoleMark
from bot.tools.held.handles import pattern

LIMIT: Final = 100_000
"""Characters of the arguments of one call, as JSON."""

_SIMPLE: Final[Mapping[str, object]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "any": JsonValue,
}
_SENT: Final = object()
"""Marks a field whose value is passed on although it was left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """Tells a type's bounds to the model; equal to itself alone, as alternatives are hashed and bounds cannot be."""

    bounds: Mapping[str, JsonValue]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), **self.bounds}


class ServerArguments(Arguments):
    """Arguments that a server gets."""

    @model_validator(mode="after")
    def _with_defaults(self) -> Self:
        for name, field in type(self).model_fields.items():
            if _SENT in field.metadata:
                self.model_fields_set.add(name)
        return self


class OpenArguments(ServerArguments):
    """An object that takes fields that are not described."""

    model_config = ConfigDict(extra="allow")


def arguments_type(name: str, arguments: Mapping[str, McpArgument]) -> type[Arguments]:
    """Return the type of a tool's arguments, called `name` in its schema."""
    return _object(name, arguments, ServerArguments)


def passed_on(arguments: Arguments) -> dict[str, JsonValue]:
    """Return checked arguments as the server takes them, without unset ones."""
    return as_json(arguments, given=True)


def _object(name: str, arguments: Mapping[str, McpArgument], base: type[Arguments]) -> type[Arguments]:
    fields: dict[str, Any] = {
        f"argument_{number}": _field(alias, one, f"{name}_{number}")
        for number, (alias, one) in enumerate(arguments.items())
    }
    return create_model(name, __base__=base, **fields)


def _field(alias: str, argument: McpArgument, name: str) -> tuple[Any, Any]:
    """Return the type and the field of an argument."""
    kind, described = _type(argument, name), argument.description or None
    if argument.has_default:
        default = Field(argument.default, alias=alias, title=alias, description=described, validate_default=True)
        return Annotated[kind, _SENT], default
    if argument.optional:
        unset = Field(None, alias=alias, title=alias, description=described, json_schema_extra=_without_default)
        return kind, unset
    return kind, Field(alias=alias, title=alias, description=described)


def _without_default(schema: JsonDict) -> None:
    """Say nothing of null, which is no value of an argument that may be left out."""
    schema.pop("default", None)


def _type(argument: McpArgument, name: str) -> Any:  # noqa: ANN401 - a type as pydantic takes it
    kind = _bounded(argument, _plain(argument, name))
    if argument.handle is not None:
        kind = Union[kind, Annotated[str, Field(pattern=pattern(argument.handle))]]  # noqa: UP007 - as below
    whole = Union[kind, None] if argument.nullable else kind  # noqa: UP007 - a type that is known only here
    role = argument.steers_as
    return whole if role is None else Annotated[whole, RoleMark(role)]


def _plain(argument: McpArgument, name: str) -> Any:  # noqa: ANN401 - as above
    """Return an argument's type without its bounds."""
    if argument.any_of is not None:
        choices = tuple(_described(one, f"{name}_{number}") for number, one in enumerate(argument.any_of))
        return Union[choices]  # noqa: UP007 - as above
    if argument.values is not None and all(isinstance(value, str) for value in argument.values):
        return Literal[tuple(argument.values)]
    if argument.type is None:
        return Scalar
    if argument.items is not None:
        return list[_described(argument.items, f"{name}_item")]
    if argument.type == "object":
        return _object(name, argument.fields or {}, _base(argument, name))
    return _SIMPLE[argument.type]


def _base(argument: McpArgument, name: str) -> type[Arguments]:
    if argument.others is None:
        return OpenArguments if argument.open else ServerArguments
    others = dict[str, _described(argument.others, f"{name}_other")]
    body: dict[str, Any] = {"__annotations__": {"__pydantic_extra__": others}, "__module__": __name__}
    return type(f"{name}_open", (OpenArguments,), body)


def _bounded(argument: McpArgument, kind: Any) -> Any:  # noqa: ANN401 - as above
    """Return a type with the bounds of its argument, checked and told to the model."""
    bounds = argument.bounds
    if not bounds or kind == Literal[tuple(argument.values or ())]:
        return kind

    def check(value: Any) -> Any:  # noqa: ANN401 - a value of any type
        told = argument.limits(_json(value))
        if told:
            raise ValueError(told)
        return value

    return Annotated[kind, AfterValidator(check), _Told(bounds)]


def _json(value: object) -> JsonValue:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, list):
        return [_json(one) for one in cast("list[object]", value)]
    return cast("JsonValue", value)


def _described(argument: McpArgument, name: str) -> Any:  # noqa: ANN401 - as above
    kind = _type(argument, name)
    return Annotated[kind, Field(description=argument.description)] if argument.description else kind
