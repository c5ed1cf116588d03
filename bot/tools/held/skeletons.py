"""The skeleton of an UNTRUSTED result: as much of it as a TRUSTED session may be shown, by the operator's description.

A skeleton has the names of the description and none of the result's. It shows identifiers as handles of ours, values
that the operator calls the server's own as they are, and bounded values. Everything else is a reference to a part of
the held result. Third parties choose among the possible skeletons, so these are counted (`millibits`) before one is
shown (ADR 0063). A result that does not fit has no skeleton.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Protocol, TypeAlias, runtime_checkable

from pydantic import JsonValue

from bot.delegation import structured_result
from bot.sessions.approvals import AnswerValue
from bot.sessions.background.delegation import FieldKind, ResultField
from bot.tools.held.handles import LONGEST_ID
from policy.document.model import Document

NOT_THERE: Final = "(the result has no such part)"
"""The text of a part that every skeleton of a kind shows, where the result does not fit."""

LONGEST: Final = 20_000
"""Characters of the longest skeleton."""

_DAY: Final = 10
"""Characters of a day, with which a time begins."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A part of which only a reference is shown."""


@dataclass(frozen=True, slots=True)
class ServerWritten:
    """A part that the server itself writes, and that no third party can choose."""


@dataclass(frozen=True, slots=True)
class Named:
    """An identifier, shown as a handle of this kind; a `made` one is of an object that the call made."""

    kind: str
    made: bool = False


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value of a bounded field, shown in its one written form; any other is a reference.

    A number is shown by the step below it. `listed` is the list of the policy that has the members, empty for none.
    """

    field: ResultField
    listed: str = ""


@dataclass(frozen=True, slots=True)
class Several:
    """A list: as many entries as there are, from `least` to `most`."""

    entry: "Shape"
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class ObjectField:
    """A field of an object, by its name in the description; an `optional` one may be absent or null."""

    name: str
    shape: "Shape"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """The fields of an object."""

    fields: tuple[ObjectField, ...]


Shape: TypeAlias = Hidden | ServerWritten | Named | Bounded | Several | ObjectFields
"""How a result, or a part of one, is shown."""


@runtime_checkable
class ShowsParts(Protocol):
    """A tool whose results are described, so that parts of them may be shown."""

    @property
    def shape(self) -> "Shape | None":
        """How a result is shown, None for one that is shown as one reference."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A part that a skeleton stands for: its text, or the identifier behind a handle of a kind, as JSON."""

    text: str
    kind: str = ""


class _MisfitError(Exception):
    """A result does not fit its description."""


def in_force(shape: Shape, document: Document) -> Shape:
    """Return a shape with the members that the policy lists now; without such a list nothing is shown."""
    match shape:
        case Bounded(listed=name) if name:
            members = document.lists.get(name, ())
            return replace(shape, field=replace(shape.field, members=members)) if members else Hidden()
        case Several():
            return replace(shape, entry=in_force(shape.entry, document))
        case ObjectFields():
            return ObjectFields(tuple(replace(one, shape=in_force(one.shape, document)) for one in shape.fields))
        case _:
            return shape


def unbounded(shape: Shape) -> Shape:
    """Return a shape with a reference in place of each bounded value, which fewer bits suffice for."""
    match shape:
        case Bounded():
            return Hidden()
        case Several():
            return replace(shape, entry=unbounded(shape.entry))
        case ObjectFields():
            return ObjectFields(tuple(replace(one, shape=unbounded(one.shape)) for one in shape.fields))
        case _:
            return shape


def millibits(shape: Shape) -> int:
    """Return the information that third parties may put into a skeleton, in millibits, rounded up.

    No skeleton is one more outcome. A shape that always looks the same carries none.
    """
    return 0 if is_constant(shape) else math.ceil(1000 * math.log2(_outcomes(shape) + 1))


def is_constant(shape: Shape) -> bool:
    """Say whether a shape looks the same for every result: objects and references alone."""
    match shape:
        case Hidden():
            return True
        case ObjectFields():
            return all(not one.optional and is_constant(one.shape) for one in shape.fields)
        case _:
            return False


def _outcomes(shape: Shape) -> int:
    match shape:
        case Bounded():
            return structured_result.values(shape.field) + 1
        case Several():
            each = _outcomes(shape.entry)
            return sum(each**number for number in range(shape.least, shape.most + 1))
        case ObjectFields():
            counts = (
                _outcomes(one.shape) + (one.optional and not isinstance(one.shape, ServerWritten))
                for one in shape.fields
            )
            return math.prod(counts)
        case _:
            return 1


def drawn(shape: Shape, value: JsonValue, scrub: Callable[[str], str], name: Callable[[Piece], JsonValue]) -> JsonValue:
    """Return the skeleton of a result, None if the result does not fit or the skeleton is too long.

    Args:
        shape: How the result is shown.
        value: The result.
        scrub: Returns a text without the values of secrets.
        name: Returns the value that stands for a part; it is called for each part in order.
    """
    try:
        shown = _Drawing(scrub, name).draw(shape, value)
    except _MisfitError:
        return None
    return shown if len(json.dumps(shown)) <= LONGEST else None


def empty(shape: Shape, name: Callable[[Piece], JsonValue]) -> JsonValue:
    """Return the skeleton that a constant shape has for a result that does not fit."""
    if isinstance(shape, ObjectFields):
        return {one.name: empty(one.shape, name) for one in shape.fields}
    return name(Piece(NOT_THERE))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Draws one skeleton."""

    scrub: Callable[[str], str]
    name: Callable[[Piece], JsonValue]

    def draw(self, shape: Shape, value: JsonValue) -> JsonValue:
        """Return the skeleton of a value. Raises _MisfitError."""
        match shape:
            case Hidden():
                return self._hidden(value)
            case ServerWritten():
                return self._scrubbed(value)
            case Named():
                return self._handle(shape.kind, value)
            case Bounded():
                found = _bounded(shape.field, value)
                return self._hidden(value) if found is None else found
            case Several():
                if not isinstance(value, list) or not shape.least <= len(value) <= shape.most:
                    raise _MisfitError
                return [self.draw(shape.entry, one) for one in value]
            case ObjectFields():
                return dict(self._fields(shape, value))

    def _fields(self, shape: ObjectFields, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
        if not isinstance(value, dict):
            raise _MisfitError
        for one in shape.fields:
            inner = value.get(one.name)
            if inner is not None:
                yield one.name, self.draw(one.shape, inner)
            elif not one.optional:
                raise _MisfitError

    def _handle(self, kind: str, value: JsonValue) -> JsonValue:
        text = _written(value)
        whole = isinstance(value, str | int) and not isinstance(value, bool)
        if not whole or len(text) > LONGEST_ID or self.scrub(text) != text:
            raise _MisfitError
        return self.name(Piece(text, kind))

    def _hidden(self, value: JsonValue) -> JsonValue:
        return self.name(Piece(self.scrub(value if isinstance(value, str) else _written(value))))

    def _scrubbed(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self.scrub(value)
            case list():
                return [self._scrubbed(one) for one in value]
            case dict():
                return {key: self._scrubbed(one) for key, one in value.items()}
            case _:
                return value


def _written(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bounded(bound: ResultField, value: JsonValue) -> AnswerValue | None:
    """Return a value as its field writes it, None if it is none of the field's."""
    try:
        match bound.kind, value:
            case FieldKind.NUMBER, int() | float() if not isinstance(value, bool):
                return structured_result.fitting(bound, _stepped(bound, value))
            case FieldKind.DATE, str():
                return structured_result.fitting(bound, value[:_DAY])
            case (FieldKind.BOOLEAN, bool()) | (FieldKind.ENUM, str()):
                return structured_result.fitting(bound, value)
            case _:
                return None
    except (ValueError, ArithmeticError):
        return None


def _stepped(bound: ResultField, value: float) -> int | float:
    """Return the number of a field that is the next one below, or the value itself. Raises ValueError: out of range."""
    given, least, step = Decimal(repr(value)), Decimal(bound.least), Decimal(bound.step)
    if not least <= given <= Decimal(bound.most):
        raise ValueError
    below = least + (given - least) // step * step
    return int(below) if below == below.to_integral_value() else float(below)
