"""Parts of a described result, and arguments, that an operator may want to mark for sessions that are spared results.

They are found by type and name, which are claims of the server, so a draft only lists them in a comment. Without a mark
of the operator every part is UNTRUSTED (ADR 0009).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from bot.mcp.draft.shapes import Shape

_IDENTIFIER: Final = re.compile(r"(^|[a-z_.-])(id|ID|Id|uid|uuid|key|ref)s?$")
_TIMES: Final = frozenset({"date", "date-time"})
_MOST: Final = 20
"""How many candidates of a kind a draft lists."""


def taking(arguments: Mapping[str, Shape]) -> Iterator[str]:
    """Yield a line for the arguments of a tool that may take handles: identifiers, and lists of them."""
    found = [place for name, shape in arguments.items() for kind, place in _found(shape, name) if kind == "handle"]
    places = [place for place in found if place.removesuffix("[]") in arguments]
    if places:
        yield f"Perhaps identifiers, for `handle: KIND` as in an `output` of this server: {_told(places)}"


def candidates(output: Shape) -> Iterator[str]:
    """Yield a line for each mark that parts of a described result may be given."""
    found = list(_found(output, ""))
    for mark, told in (
        ("handle", "identifiers, for `handle: KIND`"),
        ("bounded", "values, for `bounded: {…}`"),
        ("max_items", "lists, which need `max_items` of at most 100 to be shown by entries"),
    ):
        places = [place for kind, place in found if kind == mark]
        if places:
            yield f"Perhaps {told}: {_told(places)}"


def _told(places: list[str]) -> str:
    return f"{', '.join(places[:_MOST])}{', …' if len(places) > _MOST else ''}"


def _found(shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    kind = shape.get("type")
    name = place.removesuffix("[]").rpartition(".")[2]
    if kind in {"string", "integer"} and _IDENTIFIER.search(name):
        yield "handle", place
    elif kind in {"integer", "number", "boolean"} or (kind == "string" and shape.get("format") in _TIMES):
        yield "bounded", place
    if kind == "array":
        if "max_items" not in shape:
            yield "max_items", place
        yield from _found(cast("Shape", shape["items"]), f"{place}[]")
    for inner, one in cast("dict[str, Shape]", shape.get("fields") or {}).items():
        yield from _found(one, f"{place}.{inner}" if place else inner)
