"""Bounded values: what a background session may answer with, so that its answer tells little and nothing else.

The fields are given before anything is read. What the model says is read here, against them: exactly these fields, each
a boolean, a number of a given range and step, a day of a given range, or one of its members. All else becomes one
constant, and each value is written in one way. So the answers that there can be are counted before anything is read
(`millibits`), and while few enough of them were asked for, the answer's integrity is endorsed, see `labelling.bounded`
and ADR 0017.
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

FAILED: Final = "the background session gave no answer of the fields that were asked for"
"""What is told instead of any other answer."""

DIGITS: Final = 15
"""Most digits of a number, before and after the point together: so many are written exactly."""

FIRST_DAY: Final = date.min.isoformat()
LAST_DAY: Final = date.max.isoformat()

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_YES_OR_NO: Final = MappingProxyType({"yes": True, "true": True, "no": False, "false": False})


def instruction(fields: tuple[ResultField, ...]) -> str:
    """Return what a task says of the answer that is asked for."""
    wanted = {field.name: _wanted(field) for field in fields}
    return (
        "Answer with one JSON object and nothing else. It has exactly these fields. A list names the texts to choose"
        f" from, a date is written like 2026-11-22, and a number has at most {DIGITS} digits and no exponent:\n"
        f"{json.dumps(wanted, ensure_ascii=False)}"
    )


def values(field: ResultField) -> int:
    """Return how many values a field can have; raises ValueError: none, or more than can be written exactly."""
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
    """Return what an answer of these fields may tell, in thousandths of a bit, rounded up; a failure is an answer."""
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
    """Return in words for people what a field can be answered with."""
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
    """Return the value of a field that a person typed; raises ValueError: the words are none."""
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
    """Return a value as the field writes it; raises ValueError: it is none of the field's."""
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
    """Return the values of exactly these fields; raises ValueError."""
    if got.keys() != {field.name for field in fields}:
        raise ValueError
    return {field.name: _value(field, got[field.name]) for field in fields}


def _value(field: ResultField, value: object) -> AnswerValue:
    """Return a value of a field as it is written, the same for whatever means the same; raises ValueError."""
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
    """Return the day that a text writes in our one way; raises ValueError."""
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
