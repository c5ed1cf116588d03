"""How operator commands print: lines for people, or one JSON document for programs."""

import json
import sys
from collections.abc import Iterable

from pydantic import JsonValue

from channels.console import visible


def print_json(document: JsonValue) -> None:
    """Print a document for a program; control characters are escaped by JSON itself."""
    _write(f"{json.dumps(document, indent=2)}\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for a person, with nothing in them that a terminal would obey."""
    for line in lines:
        _write(f"{visible(line)}\n")


def amount(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 file`, `2 files`; `many` is a plural that adds more than an s."""
    return f"{count} {one}" if count == 1 else f"{count} {many or f'{one}s'}"


def _write(text: str) -> None:
    """Write to a reader, who may leave when they have seen enough. Raises SystemExit: they did."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        # Here and not in `main`: the command line library would end with code 1 before that.
        raise SystemExit(0) from None


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns; the first row is their heads."""
    known = [tuple(visible(cell).replace("\n", " ") for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in known) for column in range(len(known[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in known]
