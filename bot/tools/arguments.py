"""A call's arguments: checked against the tool's own type, walked for their texts, changed text by text."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from bot.tools.base import CONTENT, Arguments, RefusedCallError, Tool
from policy.conditions.expressions import BOOL, DOUBLE, INT, STRING, TEXTS
from policy.errors import nearest

_TYPES: Final[Mapping[object, str]] = MappingProxyType(
    {bool: BOOL, int: INT, float: DOUBLE, str: STRING, list[str]: TEXTS, tuple[str, ...]: TEXTS}
)


_NAMED: Final = 100
"""Characters that are told of where an argument stands: a model may have made up its name."""

_SUBJECT: Final = re.compile(r"^[A-Z][a-z]+ (?=should)")
_REST: Final = re.compile(r" after validation, not \d+$")

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands among arguments: names of fields and places in lists, from the outside in."""


def types(arguments: type[Arguments]) -> dict[str, str]:
    """Return a tool's arguments with the types that conditions know them by.

    One that conditions cannot look at, such as an object, has a type they do not know.
    """
    return {name: _type(field.annotation) for name, field in arguments.model_fields.items()}


def _type(annotation: object) -> str:
    if get_origin(annotation) is Literal:
        found = set[object](map(type, get_args(annotation)))
        return _type(found.pop()) if len(found) == 1 else str(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        inner = [choice for choice in get_args(annotation) if choice is not NoneType]
        return _type(inner[0]) if len(inner) == 1 else str(annotation)
    return _TYPES.get(annotation, str(annotation))


def is_content(annotation: object, path: Path) -> bool:
    """Say whether the value at a place in a type is declared as content; where a type gives a choice, in all of it.

    A mark holds for everything below it. What is not described is not declared, so it is not content.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return CONTENT in inner[1:] or is_content(inner[0], path)
    if origin in {Union, UnionType}:
        choices = [choice for choice in inner if choice is not NoneType]
        return all(is_content(choice, path) for choice in choices)
    if not path:
        return False
    step, rest = path[0], path[1:]
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        field = fields.get(str(step))
        return field is not None and (CONTENT in field.metadata or is_content(field.annotation, rest))
    if origin in {list, tuple}:
        return is_content(inner[0], rest)
    return origin is dict and is_content(inner[1], rest)


def contents(annotation: object) -> Iterator[str]:
    """Yield the places that are declared as content, as a person writes them: `text`, `parts[].text`."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from [""] if CONTENT in inner[1:] else contents(inner[0])
    elif origin in {Union, UnionType}:
        first, *others = (list(contents(choice)) for choice in inner if choice is not NoneType)
        yield from (place for place in first if all(place in other for other in others))
    elif isinstance(annotation, type) and issubclass(annotation, Arguments):
        for name, field in annotation.model_fields.items():
            below = [""] if CONTENT in field.metadata else contents(field.annotation)
            yield from (f"{field.alias or name}{place if place[:1] in {'', '['} else f'.{place}'}" for place in below)
    elif origin in {list, tuple, dict}:
        below = contents(inner[-1] if origin is dict else inner[0])
        yield from (f"[]{place if place[:1] in {'', '['} else f'.{place}'}" for place in below)


def checked(tool: Tool, arguments: Mapping[str, JsonValue]) -> Arguments:
    """Return a call's arguments as the tool's own type.

    Raises RefusedCallError: naming the fields that do not fit, never their values.
    """
    try:
        return tool.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        wrong = [*dict.fromkeys(_sentence(tool, item, arguments) for item in error.errors())]
        raise RefusedCallError(f"arguments of `{tool.name}` do not fit: {'; '.join(wrong[:5])}") from None


def _sentence(tool: Tool, error: ErrorDetails, given: Mapping[str, JsonValue]) -> str:
    """Return what is wrong with an argument: which it is and what is expected, and nothing of the value given."""
    steps = _written(error["loc"], given, missing=error["type"] == "missing")
    place, context = ".".join(steps)[:_NAMED], error.get("ctx", {})
    match error["type"]:
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
    return f"`{place}` {said}" if place and not said.startswith("`") else said


def _written(steps: Path, given: Mapping[str, JsonValue], *, missing: bool) -> Iterator[str]:
    """Yield the steps to an argument as its caller wrote them, without those of the library that checks it.

    Those name a choice of a type, or say that the name of an entry is meant. The last step is not there if `missing`.
    """
    value: object = given
    for number, step in enumerate(steps, 1):
        if isinstance(value, Mapping) and step in value:
            value = cast("Mapping[object, object]", value)[step]
        elif isinstance(value, list) and isinstance(step, int):
            value = cast("list[object]", value)[step]
        elif not missing or number < len(steps):
            continue
        yield str(step)


def strings(value: JsonValue) -> Iterator[str]:
    """Walk every text in a value, names of fields and numbers too: what rules' patterns look at."""
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
