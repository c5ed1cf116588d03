"""The places of marks (`written_by`, `handle`, `bounded`) in a tool's description, and the parts that they show."""

from collections.abc import Iterator

from bot.config.schemas.argument import McpArgument
from bot.config.schemas.skeleton import MOST_ENTRIES


def argument_faults(part: McpArgument, depth: int = 0) -> Iterator[str]:
    """Yield the faults of marks in an argument: only handles may stand there, alone or in a list of them."""
    if part.written_by is not None or part.bounded is not None:
        yield "`written_by` and `bounded` belong to `output`"
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


def is_marked(part: McpArgument) -> bool:
    """Say whether a part, or one below it, is shown."""
    if part.written_by is not None or part.handle is not None or part.bounded is not None:
        return True
    inner = (*(part.fields or {}).values(), *(part.any_of or ()), part.items, part.others)
    return any(one is not None and is_marked(one) for one in inner)
