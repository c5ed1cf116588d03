"""Lines of cron in time zones: what is due when, on the days when clocks change and on all others."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.schedules.calendar import WhenError, at_wall, checked, next_moment, zone
from tests.bot.schedules import wall_clock

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
"""Where clocks change by half an hour."""

CHANGES = {
    BERLIN: (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)),
    NEW_YORK: (datetime(2026, 3, 8, 7, tzinfo=UTC), datetime(2026, 11, 1, 6, tzinfo=UTC)),
    LORD_HOWE: (datetime(2026, 4, 4, 15, tzinfo=UTC), datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
}


def at(moment: datetime) -> int:
    """Return a moment in milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def walk(cron: str, where: ZoneInfo, begins: datetime, ends: datetime) -> list[int]:
    """Return what is due later than a moment and before another, from one to the next on a clock that is moved."""
    found, now = list[int](), at(begins)
    while 0 < (now := next_moment(cron, where, now)) < at(ends):
        found.append(now)
    return found


def shown(moments: list[int], where: ZoneInfo) -> list[str]:
    """Return moments as a clock on the wall shows them, with how far it is from UTC."""
    return [datetime.fromtimestamp(one / 1000, where).strftime("%a %H:%M %z") for one in moments]


def during(cron: str, where: ZoneInfo, change: int) -> list[str]:
    """Return what is due from six hours before a change of clocks until a day and an hour after."""
    moment = CHANGES[where][change]
    return shown(walk(cron, where, moment - timedelta(hours=6), moment + timedelta(hours=25)), where)


@pytest.mark.parametrize(
    "cron, where, change, due",
    [
        # A time that is skipped is due once, right after the gap, and however many are skipped.
        ("30 2 * * *", BERLIN, 0, ["Sun 03:00 +0200", "Mon 02:30 +0200"]),
        ("0,15,30 2 * * *", BERLIN, 0, ["Sun 03:00 +0200", "Mon 02:00 +0200", "Mon 02:15 +0200", "Mon 02:30 +0200"]),
        ("*/30 2 * * *", BERLIN, 0, ["Sun 03:00 +0200", "Mon 02:00 +0200", "Mon 02:30 +0200"]),
        ("30 2,3 * * 0", BERLIN, 0, ["Sun 03:00 +0200", "Sun 03:30 +0200"]),
        ("0 2,3 * * 0", BERLIN, 0, ["Sun 03:00 +0200"]),
        ("15 2 * * *", LORD_HOWE, 1, ["Sun 02:30 +1100", "Mon 02:15 +1100"]),
        # A fixed time that comes twice is due the first time.
        ("30 2 * * *", BERLIN, 1, ["Sun 02:30 +0200", "Mon 02:30 +0100"]),
        ("*/30 2 * * 0", BERLIN, 1, ["Sun 02:00 +0200", "Sun 02:30 +0200"]),
        ("45 1 * * 0", LORD_HOWE, 0, ["Sun 01:45 +1100"]),
        # Hours that begin with `*` follow real time.
        ("30 */2 * * 0", BERLIN, 0, ["Sun 00:30 +0100", *(f"Sun {hour:02}:30 +0200" for hour in range(4, 24, 2))]),
        ("0 */2 29 3 *", BERLIN, 0, ["Sun 00:00 +0100", *(f"Sun {hour:02}:00 +0200" for hour in range(4, 24, 2))]),
        (
            "30 * 25 10 *",
            BERLIN,
            1,
            [
                *(f"Sun {hour:02}:30 +0200" for hour in range(3)),
                *(f"Sun {hour:02}:30 +0100" for hour in range(2, 24)),
            ],
        ),
        (
            "45 * 5 4 *",
            LORD_HOWE,
            0,
            ["Sun 00:45 +1100", "Sun 01:45 +1100", *(f"Sun {hour:02}:45 +1030" for hour in range(1, 24))],
        ),
    ],
)
def test_where_clocks_change(cron: str, where: ZoneInfo, change: int, due: list[str]) -> None:
    assert during(cron, where, change) == due


@pytest.mark.parametrize(
    "cron, days",
    [
        ("0 0 * * 1", "Mon"),
        ("0 0 * * 0", "Sun"),
        ("0 0 * * 7", "Sun"),
        ("0 0 * * 1-5", "Mon Tue Wed Thu Fri"),
        ("0 0 * * mon,SAT", "Mon Sat"),
        # One of the two days is enough, unless one of them is any.
        ("0 0 13 11 1", "Mon Fri"),
        ("0 0 */13 11 6", "Sat"),
    ],
)
def test_days_of_the_week_are_those_of_cron(cron: str, days: str) -> None:
    begins = datetime(2026, 11, 8, 12, tzinfo=UTC)
    found = walk(cron, ZoneInfo("UTC"), begins, begins + timedelta(days=7))
    assert {datetime.fromtimestamp(one / 1000, UTC).strftime("%a") for one in found} == set(days.split())


YEAR = ("17 3 * * *", "*/20 2 * * *", "45 */6 * * *", "0 9 * * 1-5", "5 0 31 * 0")


@pytest.mark.parametrize("where", [BERLIN, NEW_YORK, LORD_HOWE], ids=str)
def test_a_year_is_as_a_slow_reading_has_it(where: ZoneInfo) -> None:
    begins, ends = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    due = wall_clock.due(YEAR, where, begins, ends)
    assert {cron: walk(cron, where, begins - timedelta(seconds=1), ends) for cron in YEAR} == due


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    """Return fields of a line: any, each so many, one, a range of them, or two."""
    number = st.integers(low, high)
    spans = st.tuples(number, number).filter(lambda two: two[0] < two[1]).map(lambda two: f"{two[0]}-{two[1]}")
    steps = st.tuples(st.one_of(st.just("*"), spans), st.integers(1, high)).map(lambda two: f"{two[0]}/{two[1]}")
    both = st.tuples(number, number).map(lambda two: f"{two[0]},{two[1]}")
    return st.one_of(st.just("*"), number.map(str), spans, steps, both)


LINES = st.tuples(
    fields(0, 59),
    fields(0, 4),
    st.one_of(st.just("*"), fields(1, 28)),
    st.just("*"),
    st.one_of(st.just("*"), fields(0, 7)),
).map(" ".join)


@settings(max_examples=60)
@given(cron=LINES, where=st.sampled_from(list(CHANGES)), change=st.sampled_from([0, 1]), begun=st.integers(1, 59))
def test_any_line_is_as_a_slow_reading_has_it(cron: str, where: ZoneInfo, change: int, begun: int) -> None:
    moment = CHANGES[where][change]
    begins, ends = moment - timedelta(hours=2), moment + timedelta(minutes=90)
    # From within the minute before, that one is over.
    assert (
        walk(cron, where, begins - timedelta(seconds=begun), ends) == wall_clock.due([cron], where, begins, ends)[cron]
    )


@settings(max_examples=30)
@given(begun=st.integers(0, 6 * 60), cron=st.sampled_from(["45 2 * * *", "45 1 * * *", "*/15 1-2 * * *", "45 * * * *"]))
def test_what_follows_does_not_depend_on_where_it_is_asked_from(begun: int, cron: str) -> None:
    for where, changes in CHANGES.items():
        begins = changes[1] - timedelta(hours=3)
        every = walk(cron, where, begins, begins + timedelta(hours=30))
        now = at(begins + timedelta(minutes=begun))
        assert next_moment(cron, where, now) == next(one for one in every if one > now)


def test_what_is_never_due_has_no_moment() -> None:
    now = at(datetime(2026, 1, 1, tzinfo=UTC))
    assert not next_moment("0 0 */31 2 1#5", BERLIN, now)
    assert not next_moment("0 * */31 2 1#5", BERLIN, now)
    # The 29th of February is a Sunday in 2032, and then in 2060.
    for cron in ("0 0 29 2 */7", "0 * 29 2 */7"):
        assert next_moment(cron, BERLIN, now)
        assert not next_moment(cron, BERLIN, at(datetime(2033, 1, 1, tzinfo=UTC)))
    leap = datetime(2096, 3, 1, tzinfo=UTC)
    assert next_moment("0 0 29 2 *", ZoneInfo("UTC"), at(leap)) == at(datetime(2104, 2, 29, tzinfo=UTC))


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "0 0 31 2 *",
        "* * * * 8",
        "a b c d e",
        f"{'0' * 300} * * * *",
    ],
)
def test_what_is_no_line_is_refused_with_an_example(cron: str) -> None:
    with pytest.raises(WhenError) as refused:
        next_moment(cron, BERLIN, 0)
    assert "0 9 * * 1-5" in refused.value.next_step


@given(st.text(alphabet="0123456789*/-,#LWlw ²a", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        line = checked(text)
    except WhenError:
        return
    assert checked(line) == line
    assert next_moment(line, BERLIN, 0) >= 0


@pytest.mark.parametrize(
    "name", ["", "Europe", "../etc/passwd", "/etc/passwd", "tzdata.zi", "Nowhere/Town", "UTC\n", "é"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(WhenError):
        zone(name)


def test_a_zone_is_named_as_it_should_be() -> None:
    assert zone("America/New_York") == NEW_YORK
    with pytest.raises(WhenError, match="did you mean `Europe/Berlin`"):
        zone("Europe/Berln")


def test_a_time_on_the_wall_is_the_first_that_is_shown() -> None:
    assert shown([at_wall(datetime(2026, 3, 29, 2, 30), BERLIN)], BERLIN) == ["Sun 03:00 +0200"]  # noqa: DTZ001
    assert shown([at_wall(datetime(2026, 10, 25, 2, 30), BERLIN)], BERLIN) == ["Sun 02:30 +0200"]  # noqa: DTZ001
