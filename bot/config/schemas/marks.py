"""The places of marks in a tool's description (`written_by`, `handle`, `made`, `bounded`), and the parts they show."""

from collections.abc import Iterator
from typing import Final

from bot.config.schemas.argument import McpArgument
from bot.config.schemas.skeleton import MOST_ENTRIES

_MAKES: Final = frozenset({"write", "send"})


def argument_faults(part: McpArgument, depth: int = 0) -> Iterator[str]:
    """Yield the faults of marks in an argument: only handles may stand there, alone or in a list of them."""
    if part.written_by is not None or part.bounded is not None:
        yield "`written_by` and `bounded` belong to `output`"
    if part.made:
        yield "`made` belongs to `output`: it says that the call makes the object of this identifier"
    if part.handle is not None and depth > 1:
        yield "an argument with `handle` is a value, or a list of values"
    below = [one for one in (*(part.fields or {}).values(), *(part.any_of or ()), part.others) if one is not None]
    for one in below:
        yield from argument_faults(one, depth + 2)
    if part.items is not None:
        yield from argument_faults(part.items, depth + 1)


def output_faults(part: McpArgument, place: str = "output") -> Iterator[str]:
    """Yield the faults of marks in a described result: a list that is shown by entries needs their greatest number.

    `place` is where the part stands in the description, as its faults name it.
    """
    if part.role is not None:
        yield f"`role` belongs to `arguments`, and `{place}` is a part of a result"
    below = [*(part.any_of or ()), *([] if part.others is None else [part.others])]
    if any(is_marked(one) for one in below):
        yield "parts with `written_by`, `handle` or `bounded` stand neither in `any_of` nor in `others`"
    if part.items is not None and part.written_by is None:
        if is_marked(part.items) and (part.max_items is None or part.max_items > MOST_ENTRIES):
            yield f"`{place}` is shown by entries, so it needs `max_items` of at most {MOST_ENTRIES}: they are counted"
        yield from output_faults(part.items, f"{place}[]")
    for name, one in (part.fields or {}).items():
        yield from output_faults(one, f"{place}.{name}")


def making_faults(output: McpArgument, effect: str) -> Iterator[str]:
    """Yield the faults of `made` in a described result: a call of that effect makes something, and names it alone."""
    named = tuple(_handles(output))
    for kind in sorted({part.handle or "" for part, _ in named if part.made}):
        if effect not in _MAKES:
            yield "`made` belongs to tools that write or send: others make nothing"
        if [(part.made, listed) for part, listed in named if part.handle == kind] != [(True, False)]:
            yield f"a result with `made` has one `handle: {kind}`, which is in no list"


def _handles(part: McpArgument, *, listed: bool = False) -> Iterator[tuple[McpArgument, bool]]:
    """Yield the parts with handles in a part, each with whether it is in a list."""
    if part.handle is not None:
        yield part, listed
    for one in (part.fields or {}).values():
        yield from _handles(one, listed=listed)
    if part.items is not None:
        yield from _handles(part.items, listed=True)


def is_marked(part: McpArgument) -> bool:
    """Say whether a part, or one below it, is shown."""
    if part.written_by is not None or part.handle is not None or part.bounded is not None:
        return True
    inner = (*(part.fields or {}).values(), *(part.any_of or ()), part.items, part.others)
    return any(one is not None and is_marked(one) for one in inner)
