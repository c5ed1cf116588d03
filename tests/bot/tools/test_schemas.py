"""Schemas as models are offered them: short, and they admit what tools take."""

import json
from collections.abc import Iterator
from typing import Any, cast

import jsonschema
import pytest
from pydantic import Field, ValidationError

from bot.tools import catalogue
from bot.tools.base import Arguments
from bot.tools.schemas import offered_schema

NAMED = frozenset({"$defs", "patternProperties", "properties"})


class _Pair(Arguments):
    """A pair."""

    title: str = Field(description="what a property named like a keyword says")
    default: int | None = None


class _Sample(Arguments):
    """Has each form."""

    first: _Pair
    choice: int | bool | None = Field(None, description="one of two")
    several: tuple[_Pair | None, ...] | None = None
    named: dict[str, str | None] | None = None
    needed: str | None
    quiet: str | None = Field("x", description="its default is not null")


GOOD: list[dict[str, Any]] = [
    {"first": {"title": "a"}, "needed": None},
    {"first": {"title": "a", "default": 3}, "needed": "b", "choice": True, "quiet": None},
    {"first": {"title": "a"}, "needed": "", "several": [None, {"title": "c"}], "named": {"d": None}},
]
BAD: list[dict[str, Any]] = [
    {"first": {"title": "a"}},
    {"first": {"default": 3}, "needed": None},
    {"first": {"title": "a", "other": 1}, "needed": None},
    {"first": {"title": "a"}, "needed": None, "choice": "x"},
    {"first": {"title": "a"}, "needed": None, "several": [1]},
    {"first": {"title": "a"}, "needed": None, "named": {"d": 1}},
]


@pytest.mark.parametrize("given", GOOD)
def test_it_admits_what_the_type_takes(given: dict[str, Any]) -> None:
    jsonschema.validate(given, offered_schema(_Sample))
    _Sample.model_validate_json(json.dumps(given))


@pytest.mark.parametrize("given", BAD)
def test_it_refuses_what_the_type_refuses(given: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(given, offered_schema(_Sample))
    with pytest.raises(ValidationError):
        _Sample.model_validate_json(json.dumps(given))


def test_it_keeps_descriptions_of_arguments_and_null_where_null_says_more() -> None:
    properties = offered_schema(_Sample)["properties"]
    assert properties["choice"] == {"anyOf": [{"type": "integer"}, {"type": "boolean"}], "description": "one of two"}
    assert {"type": "null"} in properties["needed"]["anyOf"]
    assert {"type": "null"} in properties["quiet"]["anyOf"]
    assert "description" not in offered_schema(_Sample)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_schema_of_a_built_in_tool_has_no_words_that_tell_nothing(name: str) -> None:
    schema = offered_schema(catalogue.KINDS[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == {
        field.alias or known for known, field in catalogue.KINDS[name].model_fields.items()
    }
    for one in _schemas(schema):
        assert not one.keys() & {"title", "discriminator"}
        assert one.get("default", "") is not None


def _schemas(value: object, *, named: bool = False) -> Iterator[dict[str, Any]]:
    """Yield each schema in a schema; in a map of names the keys are no keywords."""
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _schemas(one)
    elif isinstance(value, dict):
        schema = cast("dict[str, Any]", value)
        if not named:
            yield schema
        for keyword, inner in schema.items():
            if named or keyword not in {"default", "enum", "const", "required"}:
                yield from _schemas(inner, named=not named and keyword in NAMED)
