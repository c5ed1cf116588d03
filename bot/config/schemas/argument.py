"""The description of one argument of an MCP server's tool, or of a part of it.

It says as much as servers' own schemas say: types, ranges, lengths, patterns, lists of values, alternatives and open
objects. A description that contradicts itself is refused when it is read. `limits` tells whether a value of the right
type is within the described bounds, and `fault` looks at the type too.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self, cast

from pydantic import AfterValidator, Field, JsonValue, model_validator

from bot.config.fields import Block
from bot.config.schemas.skeleton import BoundedPart, HandleKind
from policy.redaction.redactor import searcher
from policy.request import ArgumentRole

_NAME: Final = re.compile(r"(?:[A-Za-z0-9_.$@:/\[\]-]|(?<=[A-Za-z0-9]) (?=[A-Za-z0-9])){1,64}\Z")
_FORMAT: Final = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_DEPTH: Final = 8
_VALUES: Final = 200
_CHOICES: Final = 20

_NUMBERS: Final = frozenset({"integer", "number"})
_BELONGS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "minimum": _NUMBERS,
        "maximum": _NUMBERS,
        "exclusive_minimum": _NUMBERS,
        "exclusive_maximum": _NUMBERS,
        "multiple_of": _NUMBERS,
        "min_length": frozenset({"string"}),
        "max_length": frozenset({"string"}),
        "pattern": frozenset({"string"}),
        "format": frozenset({"string", *_NUMBERS}),
        "items": frozenset({"array"}),
        "min_items": frozenset({"array"}),
        "max_items": frozenset({"array"}),
        "unique": frozenset({"array"}),
        "fields": frozenset({"object"}),
        "open": frozenset({"object"}),
        "others": frozenset({"object"}),
        "values": frozenset({"string", *_NUMBERS}),
    }
)
"""The types that a field of a description belongs to."""

_SCHEMA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "minimum": "minimum",
        "maximum": "maximum",
        "exclusive_minimum": "exclusiveMinimum",
        "exclusive_maximum": "exclusiveMaximum",
        "multiple_of": "multipleOf",
        "min_length": "minLength",
        "max_length": "maxLength",
        "pattern": "pattern",
        "format": "format",
        "min_items": "minItems",
        "max_items": "maxItems",
        "unique": "uniqueItems",
    }
)
"""The bounds, and how JSON Schema calls them."""

_PYTHON: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
    }
)
_MEANT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list",
        "object": "an object",
    }
)


def _named(value: str) -> str:
    if not _NAME.match(value):
        raise ValueError(f"`{value[:80]}` is not the name of an argument")
    return value


def _format(value: str) -> str:
    if not _FORMAT.match(value):
        raise ValueError("a `format` is a short name such as `date-time`")
    return value


ArgumentName = Annotated[str, AfterValidator(_named)]
Scalar = str | bool | int | float | None
Kind = Literal["string", "integer", "number", "boolean", "array", "object", "any"]

_Number = int | float
_Count = Annotated[int, Field(ge=0)]


class McpArgument(Block):
    """One argument of a tool, or a part of one.

    Args:
        type: Its type; `any` is any JSON. It may be left out beside `values` and `any_of`.
        description: The words that the model reads.
        optional: Whether it may be left out.
        default: The value that is sent if it is left out.
        nullable: Whether `null` is allowed beside it.
        role: The part that it has in the effect of a call. `content` is a text that chooses nothing, so that a held
            result may stand in its place. Everything else steers, also an argument without a role.
        written_by: That the server alone writes a part of a result, so that no third party can choose it.
        handle: The kind of handles that it takes, or that stand for it in a result.
        bounded: The values of a part of a result that may be shown.
        values: The only values allowed.
        any_of: Its alternatives: one of them must fit.
        minimum: The least number.
        maximum: The greatest number.
        exclusive_minimum: The number that it must be above.
        exclusive_maximum: The number that it must be below.
        multiple_of: The number that divides it.
        min_length: The fewest characters of a text.
        max_length: The most characters of a text.
        pattern: An RE2 pattern that a text must contain.
        format: How the text is meant, for the model alone.
        items: The entries of a list.
        min_items: The fewest entries of a list.
        max_items: The most entries of a list.
        unique: Whether no two entries of a list are equal.
        fields: The fields of an object.
        open: Whether an object takes further fields, with any JSON.
        others: The values of such further fields.
    """

    type: Kind | None = None
    description: str = Field(default="", max_length=2000)
    optional: bool = False
    default: JsonValue = None
    nullable: bool = False
    role: ArgumentRole | None = Field(default=None, strict=False)
    written_by: Literal["server"] | None = None
    handle: HandleKind | None = None
    bounded: BoundedPart | None = None
    values: list[Scalar] | None = Field(default=None, min_length=1, max_length=_VALUES)
    any_of: "list[McpArgument] | None" = Field(default=None, min_length=2, max_length=_CHOICES)
    minimum: _Number | None = None
    maximum: _Number | None = None
    exclusive_minimum: _Number | None = None
    exclusive_maximum: _Number | None = None
    multiple_of: Annotated[_Number, Field(gt=0)] | None = None
    min_length: _Count | None = None
    max_length: _Count | None = None
    pattern: str | None = Field(default=None, min_length=1, max_length=1000)
    format: Annotated[str, AfterValidator(_format)] | None = None
    items: "McpArgument | None" = None
    min_items: _Count | None = None
    max_items: _Count | None = None
    unique: bool = False
    fields: "dict[ArgumentName, McpArgument] | None" = None
    open: bool = False
    others: "McpArgument | None" = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for told in (self._misplaced(), self._missing(), self._contradicted(), _mark_fault(self)):
            if told:
                raise ValueError(told)
        if _depth(self) > _DEPTH:
            raise ValueError(f"arguments nest at most {_DEPTH} deep")
        if self.has_default and (told := self.fault(self.default)):
            raise ValueError(f"`default` does not fit: {told}")
        return self

    @property
    def steers_as(self) -> ArgumentRole | None:
        """The role that it has: an argument that takes handles is an identifier unless its role is given."""
        return ArgumentRole.IDENTIFIER if self.handle is not None and self.role is None else self.role

    @property
    def has_default(self) -> bool:
        """Whether a value is sent in its place if it is left out."""
        return "default" in self.model_fields_set

    @property
    def needed(self) -> bool:
        """Whether a call must give it."""
        return not self.optional and not self.has_default

    @property
    def is_open(self) -> bool:
        """Whether an object takes fields that are not described."""
        return self.open or self.others is not None

    @property
    def bounds(self) -> dict[str, JsonValue]:
        """The bounds of its values, as JSON Schema writes them."""
        said: dict[str, JsonValue] = {_SCHEMA[name]: getattr(self, name) for name in self._given if name in _SCHEMA}
        if self.values is not None:
            said["enum"] = list(self.values)
        return said

    def limits(self, value: JsonValue) -> str | None:
        """Return why a value of the described type is out of its bounds, None for one that is within."""
        if self.values is not None and key(value) not in self._allowed:
            return "should be one of its values"
        match value:
            case bool():
                return None
            case int() | float():
                return self._number(value)
            case str():
                return self._text(value)
            case list():
                return self._entries(value)
            case _:
                return None

    def fault(self, value: JsonValue) -> str | None:
        """Return why a value does not fit this description at any depth, None for one that does."""
        if value is None and self.nullable:
            return None
        if self.any_of is not None:
            fits = any(one.fault(value) is None for one in self.any_of)
            return None if fits else "should fit one of its alternatives"
        if self.type not in {None, "any"} and not _is(value, self.type):
            return f"should be {_MEANT[self.type or '']}"
        return self.limits(value) or next(self._below(value), None)

    def _below(self, value: JsonValue) -> Iterator[str]:
        """Yield the faults of the parts of a list or an object."""
        if isinstance(value, list) and self.items is not None:
            yield from (told for one in value if (told := self.items.fault(one)))
        if isinstance(value, dict) and self.type == "object":
            fields = self.fields or {}
            yield from (f"`{name}` is missing" for name, one in fields.items() if one.needed and name not in value)
            for name, one in value.items():
                described = fields.get(name) or self.others
                if described is None and not self.open:
                    yield f"`{name[:80]}` is not one of its fields"
                elif described is not None and (told := described.fault(one)):
                    yield told

    def _misplaced(self) -> str | None:
        """Return which field belongs to another type, or cannot stand beside another."""
        for name in self._given:
            if self.type not in _BELONGS[name] and (name != "values" or self.type is not None):
                return f"`{name}` belongs to type {' or '.join(f'`{one}`' for one in sorted(_BELONGS[name]))} only"
        if self.any_of is not None and (self.type is not None or self.values is not None):
            return "`any_of` stands alone, its alternatives say their types"
        if self.role is ArgumentRole.CONTENT and (self.type != "string" or self.values is not None):
            return "role `content` belongs to type `string` without `values`, others choose something"
        if self.role is ArgumentRole.AMOUNT and _says_texts(self):
            return "role `amount` belongs to numbers, a text may be read as another number"
        return None

    def _missing(self) -> str | None:
        if self.type is None and self.values is None and self.any_of is None:
            return "`type` is missing, add it"
        if self.type == "array" and self.items is None:
            return "type `array` needs `items`, parts that are not described here are not passed on"
        if self.type == "object" and self.fields is None and not self.is_open:
            return "type `object` needs `fields` or `open`, parts that are not described here are not passed on"
        return None

    def _contradicted(self) -> str | None:
        pairs = (("minimum", "maximum"), ("min_length", "max_length"), ("min_items", "max_items"))
        for low, high in pairs:
            least, most = cast("_Number | None", getattr(self, low)), cast("_Number | None", getattr(self, high))
            if least is not None and most is not None and least > most:
                return f"no value fits, `{low}` is above `{high}`"
        for value in self.values or ():
            if self.type is not None and not (value is None and self.nullable) and not _is(value, self.type):
                return f"`values` of type `{self.type}` must each be {_MEANT[self.type]}"
        if self.pattern is not None:
            try:
                searcher(self.pattern)
            except ValueError as error:
                return f"`pattern` {error}"
        return None

    @property
    def _given(self) -> tuple[str, ...]:
        """The fields that belong to some types, as far as they are given; 0 is given."""
        values = ((name, cast("object", getattr(self, name))) for name in _BELONGS)
        return tuple(name for name, value in values if value is not None and value is not False)

    @cached_property
    def _allowed(self) -> frozenset[object]:
        return frozenset(key(value) for value in self.values or ())

    @cached_property
    def _finds(self) -> Callable[[str], bool] | None:
        return None if self.pattern is None else searcher(self.pattern)

    def _number(self, value: float) -> str | None:
        # Written so that a value that is not a number, NaN, is within no bound.
        checks = (
            (self.minimum is None or value >= self.minimum, f"should be at least {self.minimum}"),
            (self.maximum is None or value <= self.maximum, f"should be at most {self.maximum}"),
            (
                self.exclusive_minimum is None or value > self.exclusive_minimum,
                f"should be above {self.exclusive_minimum}",
            ),
            (
                self.exclusive_maximum is None or value < self.exclusive_maximum,
                f"should be below {self.exclusive_maximum}",
            ),
            (
                self.multiple_of is None or _divides(self.multiple_of, value),
                f"should be a multiple of {self.multiple_of}",
            ),
        )
        return next((told for within, told in checks if not within), None)

    def _text(self, value: str) -> str | None:
        if self.min_length is not None and len(value) < self.min_length:
            return f"should have at least {self.min_length} characters"
        if self.max_length is not None and len(value) > self.max_length:
            return f"should have at most {self.max_length} characters"
        if self._finds is not None and not self._finds(value):
            return f"should match `{self.pattern}`"
        return None

    def _entries(self, value: list[JsonValue]) -> str | None:
        if self.min_items is not None and len(value) < self.min_items:
            return f"should have at least {self.min_items} entries"
        if self.max_items is not None and len(value) > self.max_items:
            return f"should have at most {self.max_items} entries"
        if self.unique and len({key(one) for one in value}) < len(value):
            return "should have no entry twice"
        return None


def key(value: JsonValue) -> object:
    """Return a value that equals another one's only if JSON has both for equal: 1 is 1.0, and not true."""
    match value:
        case None | str():
            return value
        case bool():
            return ("bool", value)
        case int() | float():
            return ("number", value)
        case list():
            return ("list", tuple(map(key, value)))
        case _:
            return ("object", frozenset((name, key(one)) for name, one in value.items()))


def _is(value: JsonValue, kind: str | None) -> bool:
    if kind == "any":
        return True
    return isinstance(value, _PYTHON[kind or ""]) and (kind == "boolean" or not isinstance(value, bool))


def _divides(step: float, value: float) -> bool:
    try:
        # As they are written: 0.3 is a multiple of 0.1 there, and not in binary.
        return Fraction(json.dumps(value)) % Fraction(json.dumps(step)) == 0
    except ValueError:
        return False


def _says_texts(argument: McpArgument) -> bool:
    """Say whether a text may stand somewhere in a value."""
    single = [one for one in (argument.items, argument.others) if one is not None]
    below = [*(argument.fields or {}).values(), *(argument.any_of or ()), *single]
    listed = any(isinstance(one, str) for one in argument.values or ())
    return listed or argument.type in {"string", "any"} or argument.is_open or any(map(_says_texts, below))


def _depth(argument: McpArgument) -> int:
    single = [one for one in (argument.items, argument.others) if one is not None]
    below = [*(argument.fields or {}).values(), *(argument.any_of or ()), *single]
    return 1 + max((_depth(one) for one in below), default=0)


def _mark_fault(part: McpArgument) -> str | None:
    """Return why the marks of a part do not fit it, None if they do."""
    marks = [name for name in ("written_by", "handle", "bounded") if getattr(part, name) is not None]
    if len(marks) > 1:
        return f"`{marks[0]}` and `{marks[1]}` exclude each other"
    if part.handle is not None and part.type not in {"string", "integer"}:
        return "`handle` belongs to type `string` or `integer` only"
    if part.handle is not None and part.role is ArgumentRole.CONTENT:
        return "`handle` and `role: content` exclude each other"
    return None if part.bounded is None else part.bounded.fault(part.type)
