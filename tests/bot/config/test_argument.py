"""A description of an argument says what it allows, and one that contradicts itself is refused when it is read."""

import pytest
from pydantic import JsonValue, ValidationError

from bot.config.schemas.argument import McpArgument, key


def described(said: dict[str, object]) -> McpArgument:
    return McpArgument.model_validate(said)


def object_of(**fields: object) -> dict[str, object]:
    return {"type": "object", "fields": fields}


@pytest.mark.parametrize(
    "said,right,wrong",
    [
        ({"type": "integer", "minimum": 0, "maximum": 3}, [0, 3], [-1, 4, True, 1.5, "1"]),
        ({"type": "number", "exclusive_minimum": 0, "exclusive_maximum": 1}, [0.5], [0, 1]),
        ({"type": "number", "multiple_of": 0.1}, [0.3, 2], [0.35, float("nan")]),
        ({"type": "integer", "values": [1, 2]}, [1], [3, True]),
        ({"values": [1, "a", True]}, [1, "a", True], [0, "b", False]),
        ({"type": "string", "min_length": 2, "max_length": 3}, ["ab"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["ab"], ["a1", "ab\n", ""]),
        ({"type": "string", "nullable": True}, [None, "a"], [1]),
        (
            {"type": "array", "items": {"type": "integer"}, "min_items": 1, "max_items": 2},
            [[1]],
            [[], [1, 2, 3], ["a"]],
        ),
        (
            {"type": "array", "items": {"type": "any"}, "unique": True},
            [[1, True, "1"]],
            [[1, 1.0], [{"a": 1}, {"a": 1}]],
        ),
        (
            object_of(a={"type": "string"}, b={"type": "integer", "optional": True}),
            [{"a": "x"}],
            [{}, {"a": "x", "c": 1}],
        ),
        ({**object_of(a={"type": "string"}), "open": True}, [{"a": "x", "c": [1]}], [{"c": 1}]),
        ({"type": "object", "others": {"type": "integer"}}, [{}, {"a": 1}], [{"a": "1"}]),
        ({"any_of": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, ["a", ["a"]], [1, [1]]),
        ({"type": "any"}, [None, 1, {"a": [1]}], []),
    ],
)
def test_values_fit_a_description_or_do_not(
    said: dict[str, object], right: list[JsonValue], wrong: list[JsonValue]
) -> None:
    argument = described(said)
    assert [argument.fault(one) for one in right] == [None] * len(right)
    assert all(argument.fault(one) for one in wrong)


@pytest.mark.parametrize(
    "said,told",
    [
        ({}, "`type` is missing, add it"),
        ({"type": "string", "minimum": 1}, "`minimum` belongs to type `integer` or `number` only"),
        ({"type": "integer", "pattern": "a"}, "`pattern` belongs to type `string` only"),
        ({"type": "integer", "minimum": 3, "maximum": 0}, "no value fits, `minimum` is above `maximum`"),
        ({"type": "string", "pattern": "(?=a)"}, "`pattern` is not an RE2 pattern: invalid perl operator: (?="),
        ({"type": "string", "format": "A b"}, "a `format` is a short name such as `date-time`"),
        ({"type": "integer", "values": ["a"]}, "`values` of type `integer` must each be a whole number"),
        ({"type": "integer", "maximum": 3, "default": 4}, "`default` does not fit: should be at most 3"),
        ({"type": "string", "default": None}, "`default` does not fit: should be a text"),
        (
            {"type": "string", "any_of": [{"type": "string"}, {"type": "any"}]},
            "`any_of` stands alone, its alternatives say their types",
        ),
        ({"type": "object", "fields": {"a  b": {"type": "string"}}}, "`a  b` is not the name of an argument"),
        ({"type": "object", "fields": {"a: b": {"type": "string"}}}, "`a: b` is not the name of an argument"),
    ],
)
def test_a_description_that_contradicts_itself_is_refused(said: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        described(said)
    assert told in str(refused.value)


def test_json_has_one_for_one_point_nought_and_not_for_true() -> None:
    assert key([1, {"a": 1}]) == key([1.0, {"a": 1.0}])
    one, true = 1, True
    assert key(one) != key(true)
    assert key("1") != key(1)


def test_a_name_has_single_spaces_within() -> None:
    assert described({"type": "object", "fields": {"Order 1": {"type": "string"}}}).fields is not None
