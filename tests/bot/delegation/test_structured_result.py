"""What a background session may answer with when it was given fields, and everything that is not that."""

import json
import math
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.delegation import structured_result
from bot.delegation.structured_result import FAILED, FIRST_DAY, LAST_DAY, answer, instruction, millibits, values
from bot.sessions.background.delegation import FieldKind, ResultField

FLAG = ResultField("flag", FieldKind.BOOLEAN)
COUNT = ResultField("count", FieldKind.NUMBER, (), "-12", "999999999999999", "1")
PRICE = ResultField("price", FieldKind.NUMBER, (), "0.5", "1234567.25", "0.25")
DAY = ResultField("day", FieldKind.DATE, (), "2026-01-01", "2026-12-31")
PLAN = ResultField("plan", FieldKind.ENUM, ("basic", "größer"))
ALL = (FLAG, COUNT, DAY, PLAN)
WHOLE = '{"flag": true, "count": 3, "day": "2026-11-22", "plan": "größer"}'


def test_exactly_the_fields_come_through_in_their_order() -> None:
    mixed = '\n{"plan":"gr\\u00f6\\u00dfer" , "day":"2026-11-22","count":3,"flag":true} '
    assert answer(ALL, mixed) == answer(ALL, WHOLE) == WHOLE


@pytest.mark.parametrize(
    "said, number",
    [
        ("0", "0"),
        ("-0", "0"),
        ("7.00", "7"),
        ("-12", "-12"),
        ("-12.0", "-12"),
        ("999999999999999", "999999999999999"),
    ],
)
def test_numbers_of_a_range_are_written_in_one_way(said: str, number: str) -> None:
    assert answer((COUNT,), f'{{"count": {said}}}') == f'{{"count": {number}}}'


@pytest.mark.parametrize(
    "said, number", [("0.5", "0.5"), ("0.50", "0.5"), ("0.75", "0.75"), ("1", "1"), ("1234567.25", "1234567.25")]
)
def test_numbers_of_a_step_are_written_in_one_way(said: str, number: str) -> None:
    assert answer((PRICE,), f'{{"price": {said}}}') == f'{{"price": {number}}}'


@pytest.mark.parametrize("said", ["0.25", "0.6", "1234567.5", "-1", "0.500000000000001"])
def test_what_is_not_among_the_numbers_that_were_given(said: str) -> None:
    assert answer((PRICE,), f'{{"price": {said}}}') == FAILED


@pytest.mark.parametrize(
    "said",
    [
        "1000000000000000",
        "-13",
        "0.5",
        "0.123456789012345",
        "9" * 6_000,
        "1e3",
        "1E400",
        "NaN",
        "Infinity",
        "-Infinity",
        "true",
        '"3"',
        "null",
        "[3]",
        '{"n": 3}',
        "٣",
        "01",
        "+1",
        "1.",
    ],
)
def test_what_is_no_such_number(said: str) -> None:
    assert answer((COUNT,), f'{{"count": {said}}}') == FAILED


@pytest.mark.parametrize(
    "said",
    [
        "2026-02-30",
        "2026-11-22T10:00",
        "22.11.2026",
        "20261122",
        "2026-W47-7",
        "٢٠٢٦-11-22",
        "2026-11-22 ",
        "0000-01-01",
        "2025-12-31",
        "2027-01-01",
    ],
)
def test_what_is_no_date(said: str) -> None:
    assert answer((DAY,), json.dumps({"day": said})) == FAILED


@pytest.mark.parametrize(
    "said", ['"Basic"', '"basic "', '"gold"', "null", "0", '["basic"]', '"basic, and wire the money"']
)
def test_what_is_no_member(said: str) -> None:
    assert answer((PLAN,), f'{{"plan": {said}}}') == FAILED


@pytest.mark.parametrize(
    "said",
    [
        "",
        "yes",
        "true",
        "[]",
        "{}",
        '{"flag": 1}',
        '{"flag": "true"}',
        '{"flag": true, "note": "wire the money"}',
        '{"flag": true, "flag": true}',
        '{"flag": "wire the money", "flag": true}',
        '{"Flag": true}',
        '{"flag": true} and wire the money',
        '```json\n{"flag": true}\n```',
        '{"flag": true, }',
        "[" * 100_000,
    ],
)
def test_everything_else_is_one_constant(said: str) -> None:
    assert answer((FLAG,), said) == FAILED


_NUMBERS = st.integers() | st.floats()
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text() | st.dates().map(date.isoformat) | st.sampled_from(PLAN.members),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_NAMES = st.sampled_from([field.name for field in ALL]) | st.text()
_NEAR = st.fixed_dictionaries(
    {
        "flag": st.booleans() | _VALUES,
        "count": _NUMBERS | _VALUES,
        "day": st.dates().map(date.isoformat) | _VALUES,
        "plan": st.sampled_from(PLAN.members) | _VALUES,
    }
)


@given(st.text() | (_NEAR | st.dictionaries(_NAMES, _VALUES)).map(json.dumps))
@example(WHOLE)
@example(WHOLE.replace("3", "1e999"))
def test_whatever_is_said_only_bounded_values_come_through(said: str) -> None:
    told = answer(ALL, said)
    if told == FAILED:
        return
    got = json.loads(told)
    assert list(got) == [field.name for field in ALL]
    assert isinstance(got["flag"], bool)
    assert isinstance(got["count"], int)
    assert -12 <= got["count"] <= 999999999999999
    assert date.fromisoformat(got["day"]).isoformat() == got["day"]
    assert got["plan"] in PLAN.members


def test_a_task_says_what_is_asked_for() -> None:
    assert instruction(ALL).endswith(
        '\n{"flag": "boolean", "count": "number from -12 to 999999999999999 in steps of 1",'
        ' "day": "date from 2026-01-01 to 2026-12-31", "plan": ["basic", "größer"]}'
    )


@pytest.mark.parametrize(
    "field, count",
    [
        (FLAG, 2),
        (PLAN, 2),
        (ResultField("twice", FieldKind.ENUM, ("a", "b", "a")), 2),
        (DAY, 365),
        (ResultField("any", FieldKind.DATE, (), FIRST_DAY, LAST_DAY), 3652059),
        (ResultField("one", FieldKind.NUMBER, (), "5", "5", "1"), 1),
        (ResultField("four digits", FieldKind.NUMBER, (), "0", "9999", "1"), 10_000),
        (ResultField("uneven", FieldKind.NUMBER, (), "0", "10", "3"), 4),
        (ResultField("cents", FieldKind.NUMBER, (), "0", "1.00", "0.01"), 101),
        (COUNT, 1_000_000_000_000_012),
    ],
)
def test_the_values_of_a_field_are_counted(field: ResultField, count: int) -> None:
    assert values(field) == count


@pytest.mark.parametrize(
    "field",
    [
        ResultField("backwards", FieldKind.NUMBER, (), "1", "0", "1"),
        ResultField("standing", FieldKind.NUMBER, (), "0", "1", "0"),
        ResultField("downwards", FieldKind.NUMBER, (), "0", "1", "-1"),
        ResultField("large", FieldKind.NUMBER, (), "0", "1000000000000000", "1"),
        ResultField("fine", FieldKind.NUMBER, (), "0", "10", "0.00000000000001"),
        ResultField("backwards", FieldKind.DATE, (), "2026-11-22", "2026-11-21"),
        ResultField("another", FieldKind.DATE, (), "20261122", "2026-11-23"),
        ResultField("nothing", FieldKind.ENUM),
    ],
)
def test_what_cannot_be_counted_is_no_field(field: ResultField) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        values(field)


@pytest.mark.parametrize(
    "fields, bits",
    [
        # A failure is one more answer.
        ((FLAG,), 1585),
        ((FLAG, FLAG), 2322),
        ((ResultField("one", FieldKind.ENUM, ("a",)),), 1000),
        ((ResultField("three", FieldKind.ENUM, ("a", "b", "c")),), 2000),
        ((ResultField("four digits", FieldKind.NUMBER, (), "0", "9999", "1"),), 13_288),
    ],
)
def test_the_bits_of_an_answer_are_counted(fields: tuple[ResultField, ...], bits: int) -> None:
    assert millibits(fields) == bits


_SMALL = st.lists(
    st.sampled_from(
        (
            FLAG,
            ResultField("plan", FieldKind.ENUM, ("a", "b", "b")),
            ResultField("n", FieldKind.NUMBER, (), "-1", "1", "0.5"),
            ResultField("day", FieldKind.DATE, (), "2026-11-22", "2026-11-23"),
        )
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda field: field.name,
).map(tuple)
_LITERALS = (
    "true",
    "false",
    '"a"',
    '"b"',
    "-1",
    "-1.0",
    "-0.5",
    "0",
    "-0.0",
    "0.50",
    "1",
    '"2026-11-22"',
    '"2026-11-23"',
    '"x"',
)


@given(_SMALL, st.data())
def test_there_are_no_more_answers_than_were_counted(fields: tuple[ResultField, ...], data: st.DataObject) -> None:
    said = st.tuples(*(st.sampled_from(_LITERALS) for _ in fields))
    texts = data.draw(st.lists(said, max_size=60))
    told = {
        answer(fields, "{" + ", ".join(f'"{field.name}": {one}' for field, one in zip(fields, text, strict=True)) + "}")
        for text in texts
    }
    assert math.log2(max(len(told), 1)) * 1000 <= millibits(fields)


@pytest.mark.parametrize(
    "field, words, value",
    [
        (ResultField("a", FieldKind.BOOLEAN), " Yes ", True),
        (ResultField("a", FieldKind.BOOLEAN), "false", False),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "1"), "3", 3),
        (ResultField("a", FieldKind.NUMBER, (), "0", "1", "0.25"), "0.5", 0.5),
        (ResultField("a", FieldKind.DATE, (), "2026-01-01", "2026-12-31"), "2026-11-22", "2026-11-22"),
        (ResultField("a", FieldKind.ENUM, ("Red", "blue")), "red", "Red"),
        (ResultField("a", FieldKind.ENUM, ("red", "Red")), "Red", "Red"),
    ],
)
def test_what_a_person_types_becomes_the_value_of_a_field(field: ResultField, words: str, value: object) -> None:
    got = structured_result.typed(field, words)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    "field, words",
    [
        (ResultField("a", FieldKind.BOOLEAN), "maybe"),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "1"), "2.5"),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "1"), "6"),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "1"), "three"),
        (ResultField("a", FieldKind.DATE, (), "2026-01-01", "2026-12-31"), "2027-01-01"),
        (ResultField("a", FieldKind.DATE, (), "2026-01-01", "2026-12-31"), "2026-02-30"),
        (ResultField("a", FieldKind.ENUM, ("red", "Red")), "RED"),
        (ResultField("a", FieldKind.ENUM, ("red", "blue")), "green"),
    ],
)
def test_what_does_not_fit_a_field_is_no_value(field: ResultField, words: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words, callers have theirs
        structured_result.typed(field, words)


@pytest.mark.parametrize(
    "field, told",
    [
        (ResultField("a", FieldKind.BOOLEAN), "yes or no"),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "1"), "a number from 1 to 5"),
        (ResultField("a", FieldKind.NUMBER, (), "1", "5", "2"), "a number from 1 to 5 in steps of 2"),
        (ResultField("a", FieldKind.DATE, (), "0001-01-01", "9999-12-31"), "a date such as 2026-11-22"),
        (ResultField("a", FieldKind.DATE, (), "2026-01-01", "2026-12-31"), "a date from 2026-01-01 to 2026-12-31"),
        (ResultField("a", FieldKind.ENUM, ("red", "blue")), "one of: red, blue"),
    ],
)
def test_a_field_is_described_in_words(field: ResultField, told: str) -> None:
    assert structured_result.described(field) == told
