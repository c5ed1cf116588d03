"""Readers of stored JSON objects that check each value before they return it.

A reader takes an object and a name, and gives the value of the one kind it promises. A value that is missing or of
another kind raises, so that a record is never half read. Names that no reader asks for are ignored.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pydantic import JsonValue

JsonObject: TypeAlias = Mapping[str, JsonValue]


def whole_object(value: JsonValue | JsonObject) -> JsonObject:
    """Return a value that is an object.

    Raises TypeError: it is not an object.
    """
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def text(found: JsonObject, name: str, absent: str | None = None) -> str:
    """Return a text; `absent` is the value of a missing one.

    Raises TypeError: it is missing without an `absent` value, or is not a text.
    """
    value = found.get(name, absent)
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def whole(found: JsonObject, name: str, absent: int | None = None) -> int:
    """Return a whole number; `absent` is the value of a missing one.

    Raises TypeError: it is missing without an `absent` value, or is not a whole number.
    """
    value = found.get(name, absent)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(name)
    return value


def numbers(found: JsonObject, name: str, absent: tuple[int, ...]) -> tuple[int, ...]:
    """Return a list of as many whole numbers as there are in `absent`, which is the value of a missing list.

    Raises TypeError: it is anything else.
    """
    value = found.get(name, list(absent))
    if not isinstance(value, list) or len(value) != len(absent):
        raise TypeError(name)
    return tuple(whole({name: one}, name) for one in value)


def flag(found: JsonObject, name: str, *, absent: bool = False) -> bool:
    """Return a boolean; `absent` is the value of a missing one.

    Raises TypeError: it is not a boolean.
    """
    value = found.get(name, absent)
    if not isinstance(value, bool):
        raise TypeError(name)
    return value


def child(found: JsonObject, name: str) -> JsonObject | None:
    """Return an object within an object, None for null or a missing one.

    Raises TypeError: it is anything else.
    """
    value = found.get(name)
    return None if value is None else whole_object(value)


def texts(found: JsonObject, name: str) -> tuple[str, ...]:
    """Return the texts of a list, none if it is missing.

    Raises TypeError: it is not a list of texts.
    """
    value = found.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(name)
    listed = tuple([one for one in value if isinstance(one, str)])
    if len(listed) < len(value):
        raise TypeError(name)
    return listed


def objects(found: JsonObject, name: str) -> tuple[JsonObject, ...]:
    """Return the objects of a list, none if it is missing.

    Raises TypeError: it is not a list of objects.
    """
    value = found.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(name)
    return tuple([whole_object(one) for one in value])


def mapped_object(found: JsonObject, change: Callable[[str], str]) -> JsonObject:
    """Return an object with every text in it changed, names too; a number that would change becomes a text."""
    return {change(name): _mapped(value, change) for name, value in found.items()}


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, dict):
        return {change(name): _mapped(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    if isinstance(value, str):
        return change(value)
    if value is None or isinstance(value, bool):
        return value
    written = str(value)
    return value if change(written) == written else change(written)
