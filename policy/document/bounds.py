"""The bounds that an operator gives to the roles of a tool's arguments, and the values that are within them.

After a bounded answer from data that nobody vouches for, only values within these bounds may steer a consequential call
unasked (rule `endorsed_cannot_steer`). A value that may be read in more than one way is in no bound.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Final, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from policy.document.reading import refusal
from policy.request import ArgumentRole

_ANY: Final = "*"
_STANDS_FOR: Final = re.compile(r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*")
"""The texts that `*` stands for: nothing in them separates two recipients or leads elsewhere."""

_MOST: Final = 1000
_LONGEST: Final = 512
_MOST_DAYS: Final = 36_600
_DECIMAL: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(
    rf"{_DAY.pattern}(?:[T ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?"
)
_FURTHEST_ZONE: Final = timedelta(hours=14)
_UNIT: Final = re.compile(r"[A-Za-z]{0,12}|[€$£¥]")
_UNHEARD: Final = "-unheard"
_MADE_HERE: Final = "-made-here"
_ENTRY: Final = re.compile(rf"[a-z][a-z0-9]*(?:{_UNHEARD}|{_MADE_HERE})")
"""The names of entries, such as `mail-unheard` and `mail-made-here`, which stand for no value of their own."""
_LEADS_ELSEWHERE: Final = re.compile(r"[\\%~$*?:\x00-\x1f\x7f]")
_NOWHERE: Final = frozenset({"", ".", ".."})
_EMPTY: Final = "nothing is in this range, `min` is above `max`"

DayEnd: TypeAlias = date | int
"""An end of a range of days: a day, or how many days after today."""


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refusal(f"`{value}` is not a number")
    return value


def _unit(value: object) -> str:
    if not isinstance(value, str) or not _UNIT.fullmatch(value):
        raise refusal(f"`{value}` is not a unit, write a word of at most 12 letters such as EUR")
    return value


def _day(value: object) -> DayEnd:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST_DAYS:
        return value
    found = _as_day(str(value)) if _DAY.fullmatch(str(value)) else None
    if found is None:
        raise refusal(f"`{value}` is not a day such as 2026-12-31, or a number of days from today")
    return found


def _as_day(written: str) -> date | None:
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None


def _listed(value: object, what: str) -> tuple[str, ...]:
    given = cast("list[object]", value) if isinstance(value, list) else []
    texts = tuple(map(_written, given))
    if not texts or len(texts) > _MOST or not all(text and len(text) <= _LONGEST for text in texts):
        raise refusal(f"write a list of {what}, each a text of at most {_LONGEST} characters")
    return cast("tuple[str, ...]", texts)


def _values(value: object) -> tuple[str, ...]:
    texts = _listed(value, "values")
    for text in texts:
        if text.count(_ANY) > 1 or text == _ANY:
            raise refusal(f"`{text}` says too little: a pattern has one `*` and a text beside it")
    return texts


def _folders(value: object) -> tuple[str, ...]:
    texts = _listed(value, "folders")
    for text in texts:
        if not _leads_straight(text.removeprefix("/")):
            raise refusal(f"`{text}` is not a folder such as `reports/2026`, without `..` and a `/` at its end")
    return texts


def _written(value: object) -> str | None:
    """Return a value of a set as a text; None for one that is no set's."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | str) else None


class _Bound(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AmountBound(_Bound):
    """The range of amounts, with both ends."""

    min: Annotated[int | float, PlainValidator(_number)]
    max: Annotated[int | float, PlainValidator(_number)]
    unit: Annotated[str, PlainValidator(_unit)] = ""
    """The unit, as people are shown it."""

    @model_validator(mode="after")
    def _in_order(self) -> "AmountBound":
        if self.min > self.max:
            raise refusal(_EMPTY)
        return self

    def holds(self, value: object) -> bool:
        """Say whether an amount is in the range; a text is one only as digits with a point."""
        amount = number_of(value)
        return amount is not None and self.min <= amount <= self.max


class TimeBound(_Bound):
    """The range of days, with both ends. A number is as many days after today."""

    min: Annotated[DayEnd, PlainValidator(_day)]
    max: Annotated[DayEnd, PlainValidator(_day)]

    @model_validator(mode="after")
    def _in_order(self) -> "TimeBound":
        if (isinstance(self.min, int) and isinstance(self.max, int) and self.min > self.max) or (
            isinstance(self.min, date) and isinstance(self.max, date) and self.min > self.max
        ):
            raise refusal(_EMPTY)
        return self

    def holds(self, value: object, today: date) -> bool:
        """Say whether a day, or the day of a moment as it is written, is in the range."""
        day = _day_of(value) if isinstance(value, str) else None
        return day is not None and _at(self.min, today) <= day <= _at(self.max, today)


def _day_of(written: str) -> date | None:
    """Return the day of a day or moment, None for a text that is neither.

    A lenient server carries hours over that no clock shows, such as a 99th, and so comes to another day.
    """
    if not _MOMENT.fullmatch(written):
        return None
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    return moment.date() if abs(moment.utcoffset() or timedelta()) <= _FURTHEST_ZONE else None


def _at(end: DayEnd, today: date) -> date:
    return end if isinstance(end, date) else today + timedelta(days=end)


class Bounds(_Bound):
    """The bounds of a tool's roles; a role without one is unbounded."""

    recipient: Annotated[tuple[str, ...], PlainValidator(_values)] | None = None
    """The recipients, each a text, or a text with one `*` for letters, digits, `.`, `_`, `+` and `-`."""
    identifier: Annotated[tuple[str, ...], PlainValidator(_values)] | None = None
    """The names and ids, as those of recipients."""
    amount: AmountBound | None = None
    time: TimeBound | None = None
    path: Annotated[tuple[str, ...], PlainValidator(_folders)] | None = None
    """The folders that paths may lead into."""

    def of(self, role: ArgumentRole | None) -> "tuple[str, ...] | AmountBound | TimeBound | None":
        """Return the bound of a role, None for none."""
        match role:
            case ArgumentRole.RECIPIENT:
                return self.recipient
            case ArgumentRole.IDENTIFIER:
                return self.identifier
            case ArgumentRole.AMOUNT:
                return self.amount
            case ArgumentRole.TIME:
                return self.time
            case ArgumentRole.PATH:
                return self.path
            case _:
                return None

    def hold(self, role: ArgumentRole | None, value: object, today: date) -> bool:
        """Say whether a value in a role is within its bound; none is within a bound that is not given.

        A text such as `mail-unheard` or `mail-made-here` is within none: there it names entries of held lists
        (`hold_entry`).

        Args:
            role: The role of the value, None for none.
            value: The value as JSON writes it.
            today: The day of the decision.
        """
        bound = self.of(role)
        if isinstance(bound, AmountBound):
            return bound.holds(value)
        if isinstance(bound, TimeBound):
            return bound.holds(value, today)
        text = _written(value)
        if bound is None or text is None or _ENTRY.fullmatch(text):
            return False
        fits = partial(_is_inside, text) if role is ArgumentRole.PATH else partial(_matches, text)
        return any(map(fits, bound))

    def hold_entry(self, role: ArgumentRole | None, kind: str, *, made: bool = False) -> bool:
        """Say whether an entry of a held list, with identifiers of a kind, is within the bound of its role.

        Only the name `<kind>-unheard` itself holds it, and no pattern does. So no bound for other values holds entries.
        One of an object that a call of the same conversation `made` is also held by the name `<kind>-made-here`.
        """
        named = role in {ArgumentRole.RECIPIENT, ArgumentRole.IDENTIFIER}
        bound = self.of(role) if named else None
        return isinstance(bound, tuple) and any(name in bound for name in entries_named(kind, made=made))

    def entries(self) -> Iterator[tuple[ArgumentRole, int, str]]:
        """Yield the texts that look like names of entries, each with its role and its place in the bound of that."""
        for role, texts in ((ArgumentRole.RECIPIENT, self.recipient), (ArgumentRole.IDENTIFIER, self.identifier)):
            for place, text in enumerate(texts or ()):
                if text.strip().lower().endswith((_UNHEARD, _MADE_HERE)):
                    yield role, place, text


def entries_named(kind: str, *, made: bool) -> tuple[str, ...]:
    """Return the names of entries of held lists with identifiers of a kind, as a bound has them.

    The second one is for objects that a call of the same conversation `made`.
    """
    return (f"{kind}{_UNHEARD}", f"{kind}{_MADE_HERE}") if made else (f"{kind}{_UNHEARD}",)


NO_BOUNDS: Final = Bounds()
"""The bounds of a tool without any."""


def number_of(value: object) -> int | float | Decimal | None:
    """Return an amount, None for a value that is no amount or is not written as one."""
    if isinstance(value, str):
        return Decimal(value) if _DECIMAL.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def in_digits(number: float | Decimal) -> str:
    """Return a number as people read it: without a fraction of zeros that only its type has."""
    return str(int(number) if isinstance(number, float) and number.is_integer() else number)


def _matches(value: str, pattern: str) -> bool:
    if _ANY not in pattern:
        return value == pattern
    before, _, after = pattern.partition(_ANY)
    if not (value.startswith(before) and value.endswith(after)):
        return False
    return _STANDS_FOR.fullmatch(value[len(before) : len(value) - len(after)]) is not None


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") and _leads_straight(path[len(folder) + 1 :])


def _leads_straight(path: str) -> bool:
    """Say whether a path leads only downwards for any reader."""
    plain = unicodedata.normalize("NFKC", path) == path and _LEADS_ELSEWHERE.search(path) is None
    return plain and _NOWHERE.isdisjoint(path.split("/"))
