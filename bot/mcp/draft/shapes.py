"""A server's JSON Schema as a description of an argument, as config.yaml has it.

A schema that cannot be described exactly, or more narrowly, is refused by name: nothing is widened in silence. The
server's own words stay under `description`, for the comments of a draft alone.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, cast

from pydantic import JsonValue

from bot.config.schemas.argument import key

Shape = dict[str, JsonValue]
"""A description of an argument: the fields of `McpArgument`."""

Schema = Mapping[str, JsonValue]

_NOTES: Final = frozenset(
    {
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "definitions",
        "deprecated",
        "description",
        "example",
        "examples",
        "nullable",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords that allow and forbid no value, or are looked at elsewhere."""

_RANGE: Final = MappingProxyType(
    {
        "minimum": "minimum",
        "maximum": "maximum",
        "exclusiveMinimum": "exclusive_minimum",
        "exclusiveMaximum": "exclusive_maximum",
        "multipleOf": "multiple_of",
        "format": "format",
    }
)
_BOUNDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern", "format": "format"},
        "integer": _RANGE,
        "number": _RANGE,
        "boolean": {},
        "array": {"minItems": "min_items", "maxItems": "max_items", "uniqueItems": "unique"},
        "object": {},
    }
)
"""The keywords of each type that are copied, and how they are called here."""

_PARTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "array": frozenset({"items"}),
        "object": frozenset({"properties", "required", "additionalProperties", "propertyNames"}),
    }
)
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_DEEPEST: Final = 8
_MOST: Final = 2000
"""Parts of one schema: one that refers to itself in many ways would fill the memory."""

_MOST_ENTRIES: Final = 20_000
"""Entries of the lists and objects of one schema: one that is referred to often costs its size each time."""

_MOST_PASSED: Final = 32
"""Schemas in a row that only lead to another."""

_MOST_CHOICES: Final = 21
"""Alternatives: those that config.yaml takes, and `null`."""

_ESCAPE: Final = re.compile(r"\\([A-Za-z])")
_SAME_ESCAPES: Final = frozenset("bBdDfnrsStvwWx")
"""The escapes with a letter that RE2 reads as servers mean them."""

_FORMAT: Final = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_LONGEST_VALUE: Final = 200
_LONGEST_PATTERN: Final = 1000
_LONGEST_REASON: Final = 300
_WORDS: Final = 1000


class UnexpressedError(Exception):
    """A schema that has no description here; the text names the place and the keyword."""

    def __init__(self, place: str, why: str) -> None:
        # A place is made of a server's names, and some reasons quote a value of it.
        super().__init__(_line(f"{place}: {why}" if place else why, _LONGEST_REASON))


@dataclass(slots=True)
class _Count:
    """How many parts of a schema were looked at, and how many entries they have, as often as they are referred to."""

    parts: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the parts of one schema.

    `place` is where it is, `within` are the references that led there, and `passed` counts the schemas that only lead
    to another.
    """

    root: Schema
    results: bool
    place: str = ""
    depth: int = 0
    passed: int = 0
    within: frozenset[str] = frozenset()
    count: _Count = field(default_factory=_Count)

    def fail(self, why: str) -> UnexpressedError:
        return UnexpressedError(self.place, why)

    def at(self, step: str) -> "_Reader":
        return replace(self, place=f"{self.place}.{step}".lstrip("."), depth=self.depth + 1)

    def shape(self, schema: JsonValue) -> Shape:
        self.count.parts += 1
        self.count.entries += _entries(schema)
        much = self.count.parts > _MOST or self.count.entries > _MOST_ENTRIES
        if much or self.depth > _DEEPEST or self.passed > _MOST_PASSED:
            raise self.fail("it has too many parts, or parts too deep in one another")
        if schema is True:
            return {"type": "any"}
        if not isinstance(schema, dict):
            raise self.fail("it is no schema, or allows nothing")
        if "$ref" in schema:
            return self._referred(schema)
        if "allOf" in schema:
            return self._merged(schema)
        for name in _ALTERNATIVES:
            if name in schema:
                return self._noted(schema, self._alternatives(schema, name))
        return self._noted(schema, self._typed(schema))

    def _noted(self, schema: Schema, shape: Shape) -> Shape:
        """Return a shape with its server's words, and with `null` where OpenAPI's keyword allows it."""
        if schema.get("nullable") is True:
            shape = {**shape, "nullable": True}
        said = schema.get("description")
        return {**shape, "description": said[:_WORDS]} if isinstance(said, str) else shape

    def _referred(self, schema: Schema) -> Shape:
        target = schema["$ref"]
        self._only_notes(schema, "$ref")
        if not isinstance(target, str) or not target.startswith("#"):
            raise self.fail("`$ref` leads elsewhere")
        if target in self.within:
            raise self.fail("`$ref` leads back to itself")
        found: JsonValue = dict(self.root)
        for step in target.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise self.fail("`$ref` leads nowhere")
            found = found[name]
        shape = replace(self, passed=self.passed + 1, within=self.within | {target}).shape(found)
        return self._noted(schema, shape)

    def _merged(self, schema: Schema) -> Shape:
        every = schema["allOf"]
        self._only_notes(schema, "allOf")
        if not isinstance(every, list) or len(every) != 1:
            raise self.fail("`allOf` joins several schemas")
        return self._noted(schema, replace(self, passed=self.passed + 1).shape(every[0]))

    def _alternatives(self, schema: Schema, name: str) -> Shape:
        self._only_notes(schema, name, "type")
        given = schema[name]
        if not isinstance(given, list) or not given:
            raise self.fail(f"`{name}` has no alternatives")
        if len(given) > _MOST_CHOICES:
            raise self.fail(f"`{name}` has more than {_MOST_CHOICES} alternatives")
        kinds = {"type": schema["type"]} if "type" in schema else {}
        choices = list[Shape]()
        nullable = False
        for number, one in enumerate(given, 1):
            if not isinstance(one, dict) or (kinds and one.get("type", kinds["type"]) != kinds["type"]):
                raise self.fail(f"`{name}` stands beside another `type`")
            if one.get("type") == "null" and len(one.keys() - _NOTES) == 1:
                nullable = True
                continue
            choices.append(self.at(f"({number})").shape({**kinds, **one}))
        if name == "oneOf" and not _apart(choices):
            raise self.fail("`oneOf` has alternatives that overlap")
        return _either(choices, nullable=nullable)

    def _typed(self, schema: Schema) -> Shape:
        kinds, nullable = self._kinds(schema)
        if "const" in schema or "enum" in schema:
            return self._values(schema, kinds, nullable=nullable)
        if not kinds:
            self._only_notes(schema, "type")
            if nullable:
                raise self.fail("it allows nothing but `null`")
            return {"type": "any"}
        self._check_keywords(schema, kinds)
        return _either([self._of(kind, schema) for kind in kinds], nullable=nullable)

    def _kinds(self, schema: Schema) -> tuple[list[str], bool]:
        """Return the types that a schema names or shows by its keywords, and whether `null` is one of them."""
        said = schema.get("type")
        named = said if isinstance(said, list) else [] if said is None else [said]
        if said is None and "const" not in schema and "enum" not in schema:
            named = [kind for kind, parts in _PARTS.items() if not parts.isdisjoint(schema)][:1]
        kinds = [str(one) for one in named if one != "null"]
        for kind in kinds:
            if kind not in _BOUNDS:
                raise self.fail(f"type `{_short(kind)}`")
        return list(dict.fromkeys(kinds)), "null" in named

    def _check_keywords(self, schema: Schema, kinds: list[str]) -> None:
        """Check that every keyword is known, and belongs to one of the types."""
        known = {"type", *_NOTES}
        for kind in kinds:
            known |= _BOUNDS[kind].keys() | _PARTS.get(kind, frozenset())
        for name in sorted(schema.keys() - known):
            harmless = (name == "patternProperties" and schema[name] == {}) or name == "unevaluatedProperties"
            if not name.startswith("x-") and not harmless:
                raise self.fail(f"keyword `{_short(name)}`")

    def _only_notes(self, schema: Schema, *beside: str) -> None:
        for name in sorted(schema.keys() - _NOTES - set(beside)):
            if not name.startswith("x-"):
                raise self.fail(f"keyword `{_short(name)}`{f' beside `{beside[0]}`' if beside[0] != 'type' else ''}")

    def _values(self, schema: Schema, kinds: list[str], *, nullable: bool) -> Shape:
        """Return the shape of a schema that lists its values; those that its types exclude can never be given."""
        known = {"type", "const", "enum", "format", *_NOTES}
        if odd := sorted(schema.keys() - known):
            raise self.fail(f"keyword `{_short(odd[0])}` beside a list of values")
        if "const" in schema and "enum" in schema:
            raise self.fail("`const` stands beside `enum`")
        listed = [schema["const"]] if "const" in schema else schema["enum"]
        if not isinstance(listed, list) or not listed:
            raise self.fail("`enum` is no list of values")
        if any(isinstance(one, dict | list) for one in listed):
            raise self.fail("`enum` lists objects or lists")
        fitting = [one for one in listed if one is not None and (not kinds or any(_is(one, kind) for kind in kinds))]
        if any(isinstance(one, str) and (len(one) > _LONGEST_VALUE or not one.isprintable()) for one in fitting):
            raise self.fail("a value of `enum` is too long, or has characters that cannot be shown")
        null = None in listed and (nullable or not kinds)
        if not fitting:
            raise self.fail("it allows no value but `null`" if null else "it allows no value")
        shape: Shape = {"values": list({key(one): one for one in fitting}.values())}
        if len(kinds) == 1 and kinds[0] != "boolean":
            shape = {"type": kinds[0], **shape}
        return {**shape, "nullable": True} if null else shape

    def _of(self, kind: str, schema: Schema) -> Shape:
        """Return the shape of one type of a schema."""
        shape: Shape = {"type": kind}
        for name, ours in _BOUNDS[kind].items():
            if name in schema and schema[name] is not False:
                self._bound(shape, name, ours, schema)
        if kind == "array":
            items = schema.get("items", True)
            shape["items"] = self.at("[]").shape(items)
        if kind == "object":
            shape |= self._object(schema)
        return shape

    def _bound(self, shape: Shape, name: str, ours: str, schema: Schema) -> None:
        """Copy a bound into a shape."""
        value = schema[name]
        if name == "format":
            # For people and models alone: one in other letters says nothing.
            if isinstance(value, str) and _FORMAT.match(value):
                shape[ours] = value
            return
        if value is True and name in {"exclusiveMinimum", "exclusiveMaximum"}:
            # As older schemas have it: the bound itself is beside it.
            plain = "minimum" if name == "exclusiveMinimum" else "maximum"
            value = shape.pop(plain, None)
        if name in _COUNTS and isinstance(value, float) and value.is_integer():
            value = int(value)
        fits = (
            isinstance(value, str)
            if name == "pattern"
            else value is True
            if name == "uniqueItems"
            else _is(value, "number")
        )
        if not fits:
            raise self.fail(f"`{name}` has a wrong type")
        if name == "pattern":
            if len(str(value)) > _LONGEST_PATTERN:
                raise self.fail(f"`pattern` is longer than {_LONGEST_PATTERN} characters")
            odd = next((found for found in _ESCAPE.findall(str(value)) if found not in _SAME_ESCAPES), "")
            if odd:
                raise self.fail(f"`pattern` has `\\{odd}`, which RE2 reads otherwise")
        shape[ours] = value

    def _object(self, schema: Schema) -> Shape:
        """Return the fields of an object, and whether it takes others.

        One that names fields and says nothing about others takes none as an argument, and any in a result.
        """
        properties, needed = schema.get("properties", {}), schema.get("required", [])
        others = schema.get("additionalProperties", self.results or "properties" not in schema)
        if schema.get("unevaluatedProperties") is False and "additionalProperties" not in schema:
            others = False
        if not isinstance(properties, dict) or not isinstance(needed, list):
            raise self.fail("`properties` or `required` has a wrong type")
        if schema.get("propertyNames", {}) not in ({}, True, {"type": "string"}):
            raise self.fail("keyword `propertyNames`")
        fields = {name: self._property(name, one, needed=name in needed) for name, one in sorted(properties.items())}
        unnamed = sorted(str(name) for name in needed if name not in properties)
        if unnamed and others is False:
            raise self.fail(f"`{_short(unnamed[0])}` is required and not described")
        shape: Shape = {"fields": cast("JsonValue", fields)}
        if others is not False:
            other = self.at("*").shape(others)
            fields |= dict.fromkeys(unnamed, other)
            shape |= (
                {"open": True}
                if other.keys() - {"description"} == {"type"} and other["type"] == "any"
                else {"others": other}
            )
        return shape

    def _property(self, name: str, schema: JsonValue, *, needed: bool) -> Shape:
        shape = self.at(_short(name)).shape(schema)
        if needed:
            return shape
        if (
            isinstance(schema, dict)
            and "default" in schema
            and (schema["default"] is not None or shape.get("nullable"))
        ):
            return {**shape, "default": schema["default"]}
        return {**shape, "optional": True}


def argument_shapes(schema: Schema) -> dict[str, Shape]:
    """Return the shapes of a tool's arguments, by their names.

    Raises UnexpressedError: one of them has no description here.
    """
    _check_numbers(schema)
    # Arguments that are not listed are never passed on, even if the server takes more.
    listed = {name: value for name, value in schema.items() if name != "additionalProperties"}
    shape = _Reader(schema, results=False).shape({"type": "object", "properties": {}, **listed})
    fields = shape.get("fields")
    if shape.get("type") != "object" or not isinstance(fields, dict):
        raise UnexpressedError("", "its arguments are not the fields of one object")
    return cast("dict[str, Shape]", fields)


def result_shape(schema: Schema) -> Shape:
    """Return the shape of a tool's structured result.

    Raises UnexpressedError: it has no description here.
    """
    _check_numbers(schema)
    shape = _Reader(schema, results=True).shape(dict(schema))
    if shape.get("type") != "object":
        raise UnexpressedError("", "its results are no objects")
    return shape


def without_words(shape: Shape) -> Shape:
    """Return a shape without the words of its server, at every depth."""
    return {name: _unsaid(name, value) for name, value in shape.items() if name != "description"}


def _unsaid(name: str, value: JsonValue) -> JsonValue:
    if name in {"items", "others"} and isinstance(value, dict):
        return without_words(value)
    if name == "fields" and isinstance(value, dict):
        return {one: without_words(cast("Shape", inner)) for one, inner in value.items()}
    if name == "any_of" and isinstance(value, list):
        return [without_words(cast("Shape", inner)) for inner in value]
    return value


def _either(choices: list[Shape], *, nullable: bool) -> Shape:
    """Return a shape that each of these fits, and `null` too if it is allowed."""
    if not choices:
        raise UnexpressedError("", "it allows nothing but `null`")
    alone: Shape = choices[0] if len(choices) == 1 else {"any_of": cast("list[JsonValue]", choices)}
    return {**alone, "nullable": True} if nullable else alone


def _apart(choices: list[Shape]) -> bool:
    """Say whether no value fits two of these shapes."""
    pairs = ((one, other) for number, one in enumerate(choices) for other in choices[number + 1 :])
    return all(_distinct(one, other) for one, other in pairs)


def _distinct(one: Shape, other: Shape) -> bool:
    kinds, others = _kinds_of(one), _kinds_of(other)
    if one.get("nullable") and other.get("nullable"):
        return False
    if kinds and others and kinds.isdisjoint(others):
        return True
    if (values := _values_of(one)) and (theirs := _values_of(other)):
        return values.isdisjoint(theirs)
    if "object" in kinds & others and len(kinds) == len(others) == 1:
        return any(_told_apart(name, one, other) for name in _needed(one))
    return False


def _told_apart(name: str, one: Shape, other: Shape) -> bool:
    """Say whether a field that both shapes need has values in one that it has not in the other."""
    if name not in set(_needed(other)):
        return False
    mine, theirs = (cast("dict[str, dict[str, Shape]]", shape)["fields"][name] for shape in (one, other))
    return _distinct(mine, theirs)


def _needed(shape: Shape) -> Iterator[str]:
    fields = shape.get("fields")
    for name, one in fields.items() if isinstance(fields, dict) else ():
        if isinstance(one, dict) and not one.get("optional") and "default" not in one:
            yield name


def _kinds_of(shape: Shape) -> frozenset[str]:
    """Return the types of a shape's values, whole numbers among the numbers; nothing if they are not known."""
    choices = shape.get("any_of")
    if isinstance(choices, list):
        found = [_kinds_of(cast("Shape", one)) for one in choices]
        return frozenset[str]().union(*found) if all(found) else frozenset()
    kind = shape.get("type")
    if kind in {None, "any"}:
        return frozenset()
    return frozenset({"number" if kind == "integer" else str(kind)})


def _values_of(shape: Shape) -> frozenset[object]:
    values = shape.get("values")
    return frozenset(map(key, values)) if isinstance(values, list) else frozenset()


def _is(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int)
        case "number":
            return isinstance(value, int | float)
        case _:
            return False


def _short(name: str) -> str:
    """Return a name that a server made up in one short piece."""
    return _line(name, 40).replace("`", " ")


def _line(text: str, most: int) -> str:
    """Return the first characters of a text in one line."""
    return "".join(char if char.isprintable() else " " for char in text[:most])


def _entries(schema: JsonValue) -> int:
    """Return the size of a part, without the parts in it."""
    if not isinstance(schema, dict):
        return 0
    return len(schema) + sum(len(one) for one in schema.values() if isinstance(one, dict | list))


def _check_numbers(schema: Schema) -> None:
    """Check that every number has a text in YAML. Raises UnexpressedError: one is too large, or is none."""
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError:
        raise UnexpressedError("", "it holds a number that cannot be written") from None
