"""The shape of every stored body."""

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

JsonObject: TypeAlias = Mapping[str, JsonValue]


def whole(value: JsonValue) -> int:
    """Return a whole number of a body, 0 for anything else."""
    return value if isinstance(value, int) else 0


def objects(body: JsonObject, name: str) -> tuple[JsonObject, ...]:
    """Return the objects of a list in a body, none if it is not there."""
    found = body.get(name)
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def texts(body: JsonObject, name: str) -> tuple[str, ...]:
    """Return the texts of a list in a body, none if it is not there."""
    found = body.get(name)
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
