"""A call's arguments: checked against the tool's own type, walked for their texts, changed text by text."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, EnumType
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Final, Literal, TypeAlias, Union, cast, get_args, get_origin
from uuid import UUID  # noqa: TID251 - the type of an argument, no id is made

from pydantic import JsonValue, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from bot.tools.base import CONTENT, Arguments, RefusedCallError, RoleMark, Tool
from policy.conditions.expressions import BOOL, DOUBLE, INT, STRING, TEXTS
from policy.errors import nearest
from policy.request import ArgumentRole

_TYPES: Final[Mapping[object, str]] = MappingProxyType(
    {
        bool: BOOL,
        int: INT,
        float: DOUBLE,
        str: STRING,
        **dict.fromkeys((date, datetime, time, timedelta, Decimal, UUID), STRING),
        **dict.fromkeys((list[str], tuple[str, ...], set[str], frozenset[str]), TEXTS),
    }
)
"""How conditions know a value as JSON writes it: a day, an amount or an id is a text there."""

_NAMED: Final = 100
"""The most characters of an argument's path in a message: a model may have made up its name."""

_MOST_TOLD: Final = 5
_MOST_READ: Final = 50
"""The most errors that are reported, and the most that are examined for them: the event loop is blocked meanwhile."""

_SUBJECT: Final = re.compile(r"^[A-Z][a-z]+ (?=should)")
_PARSING: Final = "_parsing"
"""How the library ends the names of errors whose message goes on about the value given."""
_NO_JSON: Final = "json_invalid"
_REST: Final = re.compile(r" after validation, not \d+$")

_LISTS: Final = frozenset({list, tuple, set, frozenset})
_UNIONS: Final = frozenset[object]({Union, UnionType})

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands among arguments: names of fields and places in lists, from the outside in."""


@lru_cache(maxsize=256)
def types(arguments: type[Arguments]) -> Mapping[str, str]:
    """Return a tool's arguments with the types that conditions know them by.

    One that conditions cannot look at, such as an object, has a type they do not know. Every turn asks for those of a
    tool, and they never change.
    """
    return MappingProxyType({name: _type(field.annotation) for name, field in arguments.model_fields.items()})


def _type(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        found = set[object](map(type, get_args(annotation)))
        return _type(found.pop()) if len(found) == 1 else str(annotation)
    if isinstance(annotation, EnumType):
        values = tuple(choice.value for choice in cast("type[Enum]", annotation))
        return _type(Literal[values])
    if get_origin(annotation) in _UNIONS:
        inner = [choice for choice in get_args(annotation) if choice is not NoneType]
        return _type(inner[0]) if len(inner) == 1 else str(annotation)
    return _TYPES.get(annotation, str(annotation))


@dataclass(frozen=True, slots=True)
class Steering:
    """A value of a call that is not content, so that it steers the effect.

    Args:
        path: Where it stands.
        role: Its declared role, None for a value without one.
        value: The value as JSON writes it: a scalar, an empty list or object, or a name that the caller chose.
    """

    path: Path
    role: ArgumentRole | None
    value: JsonValue


def steering(kind: type[Arguments], given: Mapping[str, JsonValue]) -> tuple[Steering, ...]:
    """Return every value of a call that is not content, in the order of its arguments.

    Args:
        kind: The type of the tool's arguments.
        given: The arguments, by the names that the type knows them by.
    """
    return tuple(one for one in _leaves(kind, dict(given), ()) if one.role is not ArgumentRole.CONTENT)


def _leaves(kind: object, value: JsonValue, path: Path) -> Iterator[Steering]:
    """Yield the values below one, and the names in it that its caller chose, which have the role of the whole."""
    if isinstance(value, dict) and (value or not path):
        for name, inner in value.items():
            if not _is_named(kind, (*path, name)):
                yield Steering((*path, name), role_at(kind, path), name)
            yield from _leaves(kind, inner, (*path, name))
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from _leaves(kind, inner, (*path, place))
    else:
        yield Steering(path, role_at(kind, path), value)


def _is_named(annotation: object, path: Path) -> bool:
    """Say whether a type itself names the last step of a path; where it gives a choice, in all of it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_named(inner[0], path)
    if origin in _UNIONS:
        return all(_is_named(choice, path) for choice in inner if choice is not NoneType)
    step, rest = path[0], path[1:]
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        field = _fields(annotation).get(str(step))
        return field is not None and (not rest or _is_named(field.annotation, rest))
    entry = _entry(origin, inner, step)
    return entry is not None and bool(rest) and _is_named(entry, rest)


def role_at(annotation: object, path: Path) -> ArgumentRole | None:
    """Return the role of the value at a place in a type, None for none; where a type gives a choice, that of all of it.

    A mark holds for everything below it. A value that the type does not describe has no role.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _marked(inner[1:]) or role_at(inner[0], path)
    if origin in _UNIONS:
        roles = {role_at(choice, path) for choice in inner if choice is not NoneType}
        return roles.pop() if len(roles) == 1 else None
    if not path:
        return None
    step, rest = path[0], path[1:]
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        field = _fields(annotation).get(str(step))
        return None if field is None else _marked(field.metadata) or role_at(field.annotation, rest)
    entry = _entry(origin, inner, step)
    return None if entry is None else role_at(entry, rest)


def is_content(annotation: object, path: Path) -> bool:
    """Say whether the value at a place in a type is declared as content."""
    return role_at(annotation, path) is ArgumentRole.CONTENT


def _marked(metadata: Iterable[object]) -> ArgumentRole | None:
    """Return the role that the metadata of a type give, None for none."""
    return next((one.role for one in metadata if isinstance(one, RoleMark)), None)


def _fields(kind: type[Arguments]) -> dict[str, FieldInfo]:
    """Return the fields of a type by the names in a call."""
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _entry(origin: object, inner: tuple[object, ...], step: str | int) -> object:
    """Return the type of a list's or an object's entry, None where nothing is described."""
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return inner[step] if isinstance(step, int) and step < len(inner) else None
    if origin in _LISTS:
        return inner[0]
    return inner[1] if origin is dict else None


def contents(annotation: object) -> Iterator[str]:
    """Yield the places that are declared as content, as a person writes them: `text`, `parts[].text`."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from [""] if CONTENT in inner[1:] else contents(inner[0])
    elif origin in _UNIONS:
        first, *others = (list(contents(choice)) for choice in inner if choice is not NoneType)
        yield from (place for place in first if all(place in other for other in others))
    elif isinstance(annotation, type) and issubclass(annotation, Arguments):
        for name, field in _fields(annotation).items():
            below = [""] if CONTENT in field.metadata else contents(field.annotation)
            yield from (_below(name, place) for place in below)
    elif origin is tuple and inner[-1:] != (Ellipsis,):
        for number, one in enumerate(inner):
            yield from (_below(f"[{number}]", place) for place in contents(one))
    elif origin in {*_LISTS, dict}:
        yield from (_below("[]", place) for place in contents(inner[-1] if origin is dict else inner[0]))


def _below(name: str, place: str) -> str:
    """Return how a person writes a place below a named one."""
    return f"{name}{place if place[:1] in {'', '['} else f'.{place}'}"


def checked(tool: Tool, arguments: Mapping[str, JsonValue]) -> Arguments:
    """Return a call's arguments as the tool's own type, read as JSON: a day is a text there, a tuple a list.

    Raises RefusedCallError: naming the fields that do not fit, never their values.
    """
    try:
        return _read(tool.arguments, arguments)
    except ValidationError as error:
        found = error.errors(include_url=False)[:_MOST_READ]
        wrong = [*dict.fromkeys(_sentence(tool, item, arguments) for item in found)]
        raise RefusedCallError(f"arguments of `{tool.name}` do not fit: {'; '.join(wrong[:_MOST_TOLD])}") from None


def _read(kind: type[Arguments], arguments: Mapping[str, JsonValue]) -> Arguments:
    """Return arguments as a type.

    A value that JSON cannot write, such as half a character, is read only as text, number or list.

    Raises ValidationError: they do not fit.
    """
    try:
        return kind.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != _NO_JSON:
            raise
    except (ValueError, RecursionError):
        # A number too long to be written, or lists too deep.
        pass
    return kind.model_validate(dict(arguments))


def as_json(arguments: Arguments, *, given: bool = False) -> dict[str, JsonValue]:
    """Return checked arguments as JSON writes them, by the names that a server and the rules know them by.

    With `given`, unset fields are left out.
    """
    return arguments.model_dump(mode="json", by_alias=True, exclude_unset=given)


def texts(given: Mapping[str, JsonValue], arguments: Arguments) -> tuple[str, ...]:
    """Return every text of a call: as it was given, and as the tool gets it where that is written otherwise."""
    written = tuple(strings(dict(given)))
    known = set(written)
    return (*written, *(text for text in strings(as_json(arguments, given=True)) if text not in known))


def _sentence(tool: Tool, error: ErrorDetails, given: Mapping[str, JsonValue]) -> str:
    """Return the fault of an argument: its name and the expected value, and nothing of the given value."""
    steps = _written(error["loc"], given, missing=error["type"] == "missing")
    place, context = ".".join(steps)[:_NAMED], error.get("ctx", {})
    match error["type"]:
        case "decimal_type" | "decimal_parsing":
            said = "should be a number"
        case "missing":
            said = "is missing"
        case "extra_forbidden":
            known = types(tool.arguments) if len(error["loc"]) == 1 else ()
            said = f"is not one of its arguments{nearest(place, known)}"
        case "union_tag_invalid":
            said = f"needs a `type` that is one of {context['expected_tags']}"
        case "union_tag_not_found":
            said = "needs a `type`"
        case "model_type" | "model_attributes_type" | "dict_type":
            said = "should be an object"
        case "value_error":
            said = str(context["error"])
        case _:
            said = _REST.sub("", _SUBJECT.sub("", error["msg"]))
            if error["type"].endswith(_PARSING):
                said = said.partition(",")[0]
    return f"`{place}` {said}" if place and not said.startswith("`") else said


def _written(steps: Path, given: Mapping[str, JsonValue], *, missing: bool) -> Iterator[str]:
    """Yield the steps to an argument as its caller wrote them, without those of the library that checks it.

    Those name a choice of a type, or say that the name of an entry is meant. The last step is not there if `missing`.
    """
    value: object = given
    for number, step in enumerate(steps, 1):
        if isinstance(value, Mapping) and step in value:
            value = cast("Mapping[object, object]", value)[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(cast("list[object]", value)):
            value = cast("list[object]", value)[step]
        elif not missing or number < len(steps):
            continue
        yield str(step)


def strings(value: JsonValue) -> Iterator[str]:
    """Walk every text in a value, names of fields and numbers too, for the patterns of rules."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def changed(arguments: Mapping[str, JsonValue], change: Callable[[str], str]) -> dict[str, JsonValue]:
    """Return arguments with every text changed, however deep, names of fields too."""
    return {change(name): _mapped(value, change) for name, value in arguments.items()}


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return changed(value, change)
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return value
