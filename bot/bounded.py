"""Bounded values: what a background session may answer with, so that its answer tells nothing else.

The fields are given before anything is read. What the model says is read here, against them: exactly these fields, each
a boolean, a number of few digits, a date, or one of its members. All else becomes one constant. So no text of what was
read gets through, and the answer's integrity may be endorsed, see `labelling.bounded`.
"""

import json
import re
from datetime import date
from typing import Final, TypeAlias, cast

from bot.sessions.kin import Bounded, Kind

FAILED: Final = "the background session gave no answer of the fields that were asked for"
"""What is told instead of any other answer."""

DIGITS: Final = 15
"""Most digits of a number, before and after the point together: it tells no more than a dozen letters could."""

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_Value: TypeAlias = bool | int | float | str


def instruction(fields: tuple[Bounded, ...]) -> str:
    """Return what a task says of the answer that is asked for."""
    wanted = {field.name: list(field.members) if field.kind is Kind.ENUM else field.kind.value for field in fields}
    return (
        "Answer with one JSON object and nothing else. It has exactly these fields. A list names the texts to choose"
        f" from, a date is written like 2026-11-22, and a number has at most {DIGITS} digits and no exponent:\n"
        f"{json.dumps(wanted, ensure_ascii=False)}"
    )


def answer(fields: tuple[Bounded, ...], text: str) -> str:
    """Return an answer as JSON of the fields, in their order, or the constant `FAILED`."""
    try:
        got: object = json.loads(
            text, object_pairs_hook=_object, parse_int=_number, parse_float=_number, parse_constant=_no_number
        )
        # Only the hook makes one: a name that comes twice was refused there.
        if not isinstance(got, dict):
            return FAILED
        return json.dumps(_fitting(fields, cast("dict[str, object]", got)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return FAILED


def _fitting(fields: tuple[Bounded, ...], got: dict[str, object]) -> dict[str, _Value]:
    """Return the values of exactly these fields; raises ValueError."""
    if got.keys() != {field.name for field in fields}:
        raise ValueError
    return {field.name: _value(field, got[field.name]) for field in fields}


def _value(field: Bounded, value: object) -> _Value:
    match field.kind, value:
        case Kind.BOOLEAN, bool():
            return value
        case Kind.NUMBER, int() | float() if not isinstance(value, bool):
            return value
        case Kind.DATE, str() if _DATE.fullmatch(value):
            return date.fromisoformat(value).isoformat()
        case Kind.ENUM, str() if value in field.members:
            return value
        case _:
            raise ValueError


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _number(literal: str) -> int | float:
    if not _NUMBER.fullmatch(literal) or sum(map(str.isdigit, literal)) > DIGITS:
        raise ValueError
    return float(literal) if "." in literal else int(literal)


def _no_number(_literal: str) -> float:
    raise ValueError
