"""Moments in words, on the wall of a time zone."""

from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.schedules.calendar import WhenError
from bot.schedules.phrases import EXAMPLES, When, parse

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    """Return a time on the wall in Berlin, in milliseconds since the epoch."""
    return round(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


FRIDAY = at("2026-11-27T10:30:15.250")


@pytest.mark.parametrize(
    "text, first",
    [
        ("in 20 minutes", FRIDAY + 20 * 60_000),
        ("In  a minute", FRIDAY + 60_000),
        ("in 90 seconds", FRIDAY + 90_000),
        ("in an hour", FRIDAY + 3_600_000),
        ("in 2 days", at("2026-11-29T10:30:15.250")),
        ("in 1 week", at("2026-12-04T10:30:15.250")),
        ("today 17:00", at("2026-11-27T17:00")),
        ("tomorrow 9:00", at("2026-11-28T09:00")),
        ("tomorrow at 09:05", at("2026-11-28T09:05")),
        ("2026-12-01 08:30", at("2026-12-01T08:30")),
        ("2026-12-01T08:30", at("2026-12-01T08:30")),
        ("monday 9:00", at("2026-11-30T09:00")),
        ("on Friday at 9:00", at("2026-12-04T09:00")),
        ("friday 23:59", at("2026-11-27T23:59")),
        ("11:00", at("2026-11-27T11:00")),
        ("at 10:30", at("2026-11-28T10:30")),
    ],
)
def test_a_phrase_names_a_single_moment(text: str, first: int) -> None:
    assert parse(text, BERLIN, FRIDAY) == When(first)


@pytest.mark.parametrize(
    "text, cron, first",
    [
        ("every day 9:00", "0 9 * * *", "2026-11-28T09:00"),
        ("every day at 23:05", "5 23 * * *", "2026-11-27T23:05"),
        ("every weekday 9:00", "0 9 * * 1-5", "2026-11-30T09:00"),
        ("every Monday at 7:45", "45 7 * * 1", "2026-11-30T07:45"),
        ("every sunday 7:45", "45 7 * * 7", "2026-11-29T07:45"),
        ("every minute", "* * * * *", "2026-11-27T10:31"),
        ("every 15 minutes", "*/15 * * * *", "2026-11-27T10:45"),
        ("every hour", "0 * * * *", "2026-11-27T11:00"),
        ("every 2 hours", "0 */2 * * *", "2026-11-27T12:00"),
        ("0  9 * * mon-fri", "0 9 * * MON-FRI", "2026-11-30T09:00"),
        ("* * * * 1", "* * * * 1", "2026-11-30T00:00"),
    ],
)
def test_a_phrase_names_moments_that_come_again(text: str, cron: str, first: str) -> None:
    assert parse(text, BERLIN, FRIDAY) == When(at(first), cron)


@pytest.mark.parametrize(
    "text, first",
    [
        ("tomorrow 2:30", "2026-03-29T03:00"),
        ("in 1 day", "2026-03-29T03:00"),
        ("in 24 hours", "2026-03-29T03:30"),
    ],
)
def test_a_time_that_clocks_skip_is_after_the_gap(text: str, first: str) -> None:
    assert parse(text, BERLIN, at("2026-03-28T02:30")) == When(at(first))


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "names no moment"),
        ("soon", "names no moment"),
        ("in 20 fortnights", "names no moment"),
        ("every 2 days 9:00", "names no moment"),
        ("x" * 201, "names no moment"),
        ("today 9:00", "has passed"),
        ("2025-12-01 08:30", "has passed"),
        ("0001-01-01 00:00", "has passed"),
        ("in 0 minutes", "has passed"),
        ("9999-12-31 23:59", "more than ten years away"),
        ("in 999999 weeks", "more than ten years away"),
        ("in 999999 hours", "more than ten years away"),
        ("2026-02-30 08:30", "no such date"),
        ("tomorrow 24:00", "no such time of day"),
        ("every 7 minutes", "does not divide 60 minutes evenly"),
        ("every 0 hours", "does not divide 24 hours evenly"),
        ("0 25 * * *", "the field `hour`"),
        ("0 0 */31 2 1#5", "not due within ten years"),
    ],
)
def test_what_names_no_moment_to_come_is_refused_with_a_next_step(text: str, told: str) -> None:
    with pytest.raises(WhenError, match=told) as refused:
        parse(text, BERLIN, FRIDAY)
    assert refused.value.next_step


NUMBERS = st.integers(0, 99_999).map(str)
SHAPES = st.sampled_from(
    ["in {} days", "every {} hours", "{}-{}-{} {}:{}", "2026-0{}-{} 8:30", "tomorrow {}:{}", "{} {} * * {}"]
)


@settings(max_examples=60)
@given(st.text(max_size=40) | st.tuples(SHAPES, st.tuples(*[NUMBERS] * 5)).map(lambda two: two[0].format(*two[1])))
def test_no_text_breaks_the_reader(text: str) -> None:
    with suppress(WhenError):
        assert parse(text, BERLIN, FRIDAY).first > FRIDAY


def test_every_example_is_understood() -> None:
    for example in EXAMPLES.split("`")[1::2]:
        assert parse(example, BERLIN, FRIDAY).first > FRIDAY
