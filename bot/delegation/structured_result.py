"""Bounded values: the only possible answers of a background session with fields, so that they carry little information.

The fields are given before anything is read. The model's answer is parsed here: it must have exactly these fields. Each
is a boolean, a number of a given range and step, a day of a given range, or one of its members. Any other answer
becomes one constant, and each value has one written form. So the possible answers are counted before anything is read
(`millibits`). While few enough bits were asked for, the answer's integrity is endorsed, see `labelling.bounded` and ADR
0017.
"""

import json
import math
import re
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Final, cast

from bot.sessions.approvals import AnswerValue
from bot.sessions.background.delegation import FieldKind, ResultField

FAILED: Final = "no answer came back in the fields that were asked for"
"""Stands for any other answer."""

DIGITS: Final = 15
"""The most digits of a number, before and after the point together: so many are written exactly."""

FIRST_DAY: Final = date.min.isoformat()
LAST_DAY: Final = date.max.isoformat()

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_YES_OR_NO: Final = MappingProxyType({"yes": True, "true": True, "no": False, "false": False})


def instruction(fields: tuple[ResultField, ...]) -> str:
    """Return the part of a task that describes the expected answer."""
    wanted = {field.name: _wanted(field) for field in fields}
    return (
        "Answer with one JSON object and nothing else. It has exactly these fields. A list names the texts to choose"
        f" from. A date is written like 2026-11-22. A number has at most {DIGITS} digits and no exponent:\n"
        f"{json.dumps(wanted, ensure_ascii=False)}"
    )


def values(field: ResultField) -> int:
    """Return how many values a field can have.

    Raises ValueError: there are none, or they cannot all be written exactly.
    """
    match field.kind:
        case FieldKind.BOOLEAN:
            count = 2
        case FieldKind.ENUM:
            count = len(set(field.members))
        case FieldKind.DATE:
            count = _day(field.most).toordinal() - _day(field.least).toordinal() + 1
        case FieldKind.NUMBER:
            least, most, step = Decimal(field.least), Decimal(field.most), Decimal(field.step)
            finest = min(cast("int", one.as_tuple().exponent) for one in (least, most, step))
            largest = max(abs(least), abs(most)).scaleb(-min(finest, 0))
            if step <= 0 or largest >= 10**DIGITS:
                raise ValueError
            count = int((most - least) // step) + 1 if most >= least else 0
    if count < 1:
        raise ValueError
    return count


def millibits(fields: tuple[ResultField, ...]) -> int:
    """Return the information of an answer of these fields, in millibits, rounded up; a failure is an answer."""
    return math.ceil(1000 * math.log2(math.prod(map(values, fields)) + 1))


def answer(fields: tuple[ResultField, ...], text: str) -> str:
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


def described(field: ResultField) -> str:
    """Return the possible answers of a field, in words for people."""
    match field.kind:
        case FieldKind.BOOLEAN:
            return "yes or no"
        case FieldKind.ENUM:
            return f"one of: {', '.join(field.members)}"
        case FieldKind.DATE:
            between = (field.least, field.most) != (FIRST_DAY, LAST_DAY)
            return f"a date from {field.least} to {field.most}" if between else "a date such as 2026-11-22"
        case FieldKind.NUMBER:
            steps = "" if Decimal(field.step) == 1 else f" in steps of {field.step}"
            return f"a number from {field.least} to {field.most}{steps}"


def typed(field: ResultField, words: str) -> AnswerValue:
    """Return the value of a field that a person typed. Raises ValueError: the words are not a value of it."""
    word = words.strip()
    match field.kind:
        case FieldKind.BOOLEAN:
            if word.casefold() not in _YES_OR_NO:
                raise ValueError
            return _YES_OR_NO[word.casefold()]
        case FieldKind.NUMBER:
            return _in_range(field, _number(word))
        case FieldKind.DATE:
            return _value(field, word)
        case FieldKind.ENUM:
            exact = [member for member in field.members if member.strip() == word]
            (found,) = exact or [one for one in field.members if one.strip().casefold() == word.casefold()]
            return found


def fitting(field: ResultField, value: AnswerValue) -> AnswerValue:
    """Return a value as the field writes it. Raises ValueError: it is not a value of the field."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _value(field, _number(f"{Decimal(repr(value)):f}") if number else value)


def _wanted(field: ResultField) -> str | list[str]:
    match field.kind:
        case FieldKind.BOOLEAN:
            return field.kind.value
        case FieldKind.ENUM:
            return list(field.members)
        case FieldKind.DATE:
            return f"date from {field.least} to {field.most}"
        case FieldKind.NUMBER:
            return f"number from {field.least} to {field.most} in steps of {field.step}"


def _fitting(fields: tuple[ResultField, ...], got: dict[str, object]) -> dict[str, AnswerValue]:
    """Return the values of exactly these fields. Raises ValueError: there are others, or a value is not a field's."""
    if got.keys() != {field.name for field in fields}:
        raise ValueError
    return {field.name: _value(field, got[field.name]) for field in fields}


def _value(field: ResultField, value: object) -> AnswerValue:
    """Return a value of a field in its one written form. Raises ValueError: it is not a value of the field."""
    match field.kind, value:
        case FieldKind.BOOLEAN, bool():
            return value
        case FieldKind.NUMBER, Decimal():
            return _in_range(field, value)
        case FieldKind.DATE, str() if field.least <= value <= field.most:
            return _day(value).isoformat()
        case FieldKind.ENUM, str() if value in field.members:
            return value
        case _:
            raise ValueError


def _in_range(field: ResultField, value: Decimal) -> int | float:
    least, most, step = Decimal(field.least), Decimal(field.most), Decimal(field.step)
    if not least <= value <= most or (value - least) % step:
        raise ValueError
    return int(value) if value == value.to_integral_value() else float(value)


def _day(text: str) -> date:
    """Return the day of a text in the form YYYY-MM-DD. Raises ValueError: it has another form."""
    if not _DATE.fullmatch(text):
        raise ValueError
    return date.fromisoformat(text)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _number(literal: str) -> Decimal:
    if not _NUMBER.fullmatch(literal) or sum(map(str.isdigit, literal)) > DIGITS:
        raise ValueError
    return Decimal(literal)


def _no_number(_literal: str) -> Decimal:
    raise ValueError
