"""The marks in a described result by which a TRUSTED session may be shown parts of it (`hold: untrusted`).

Without a mark a part is UNTRUSTED and stays held. A mark says that the server alone writes a value, that it is an
identifier, or that it is shown only within a range; see `bot.tools.held.skeletons`.
"""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from bot.config.fields import Block
from bot.sessions.background.delegation import FieldKind, ResultField

_KIND: Final = re.compile(r"[a-z][a-z0-9]{0,15}\Z")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_LARGEST: Final = 10**9
_SMALLEST: Final = Decimal("0.000001")
_NUMBER: Final = (("minimum", "maximum"), ("minimum", "maximum", "step"))
_BOUNDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        "boolean": ((),),
        "integer": _NUMBER,
        "number": _NUMBER,
        "string": (("earliest", "latest"), ("values",), ("list",)),
    }
)
"""The fields that bound a part of a type."""

MOST_ENTRIES: Final = 100
"""The most entries of a list that is shown entry by entry."""


def _kind(value: str) -> str:
    if not _KIND.match(value):
        raise ValueError("a `handle` is a short name of small letters and digits, such as `mail`")
    return value


def _day(value: str) -> str:
    if not _DAY.match(value):
        raise ValueError("a day is written as `2026-11-22`")
    date.fromisoformat(value)
    return value


HandleKind = Annotated[str, AfterValidator(_kind)]
_Day = Annotated[str, AfterValidator(_day)]
_Number = Annotated[int | float, Field(gt=-_LARGEST, lt=_LARGEST)]


class BoundedPart(Block):
    """The range of the values that are shown of a part; any other one stays held.

    Args:
        minimum: The least number.
        maximum: The greatest number.
        step: The step of the numbers; others are shown as the next one below.
        earliest: The first day; a time is shown as its day.
        latest: The last day.
        values: The texts.
        list: The name of the list of the policy that has the texts.
    """

    minimum: _Number | None = None
    maximum: _Number | None = None
    step: _Number | None = None
    earliest: _Day | None = None
    latest: _Day | None = None
    values: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(min_length=1)] | None = None
    list: str | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("no number is shown, `minimum` is above `maximum`")
        if self.step is not None and Decimal(repr(self.step)) < _SMALLEST:
            raise ValueError(f"`step` is at least {_SMALLEST}")
        if self.earliest is not None and self.latest is not None and self.earliest > self.latest:
            raise ValueError("no day is shown, `earliest` is after `latest`")
        return self

    def fault(self, kind: str | None) -> str | None:
        """Return why it does not bound a part of a type, None if it does."""
        wanted = _BOUNDS.get(kind or "")
        if wanted is None:
            return "`bounded` belongs to types `boolean`, `integer`, `number` and `string`"
        given = tuple(name for name in BoundedPart.model_fields if name in self.model_fields_set)
        if given in wanted:
            return None
        choices = (" with ".join(f"`{name}`" for name in names) or "nothing" for names in wanted)
        return f"`bounded` of type `{kind}` has {', or '.join(choices)}"

    def field(self, kind: str | None) -> ResultField:
        """Return it as a bounded field of a part of a type that it bounds; members of a list come from the policy."""
        match kind:
            case "boolean":
                return ResultField("", FieldKind.BOOLEAN)
            case "integer" | "number":
                numbers = (self.minimum or 0, self.maximum or 0, self.step or 1)
                return ResultField("", FieldKind.NUMBER, (), *(f"{Decimal(repr(one)):f}" for one in numbers))
            case _ if self.earliest is not None:
                return ResultField("", FieldKind.DATE, (), self.earliest, self.latest or self.earliest)
            case _:
                return ResultField("", FieldKind.ENUM, tuple(self.values or ()))
