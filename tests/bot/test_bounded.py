"""What a background session may answer with when it was given fields, and everything that is not that."""

import json
import math
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.bounded import DIGITS, FAILED, answer, instruction
from bot.sessions.kin import Bounded, Kind

FLAG = Bounded("flag", Kind.BOOLEAN)
COUNT = Bounded("count", Kind.NUMBER)
DAY = Bounded("day", Kind.DATE)
PLAN = Bounded("plan", Kind.ENUM, ("basic", "größer"))
ALL = (FLAG, COUNT, DAY, PLAN)
WHOLE = '{"flag": true, "count": 3, "day": "2026-11-22", "plan": "größer"}'


def test_exactly_the_fields_come_through_in_their_order() -> None:
    mixed = '\n{"plan":"gr\\u00f6\\u00dfer" , "day":"2026-11-22","count":3,"flag":true} '
    assert answer(ALL, mixed) == answer(ALL, WHOLE) == WHOLE


@pytest.mark.parametrize(
    "said, number",
    [
        ("0", 0),
        ("-12", -12),
        ("999999999999999", 999999999999999),
        ("0.5", 0.5),
        ("1234567.12345678", 1234567.12345678),
    ],
)
def test_numbers_of_few_digits(said: str, number: float) -> None:
    assert json.loads(answer((COUNT,), f'{{"count": {said}}}')) == {"count": number}


@pytest.mark.parametrize(
    "said",
    [
        "1000000000000000",
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
    values = json.loads(told)
    assert list(values) == [field.name for field in ALL]
    assert isinstance(values["flag"], bool)
    assert isinstance(values["count"], int | float)
    assert math.isfinite(values["count"])
    assert len(str(abs(int(values["count"])))) <= DIGITS
    assert date.fromisoformat(values["day"]).isoformat() == values["day"]
    assert values["plan"] in PLAN.members


def test_a_task_says_what_is_asked_for() -> None:
    assert instruction(ALL).endswith(
        '\n{"flag": "boolean", "count": "number", "day": "date", "plan": ["basic", "größer"]}'
    )
