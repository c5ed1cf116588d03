"""A schedule holds by the clocks of its zone, over midnight and over the days when these are put forward or back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from policy.conditions.schedule import WeeklyWindow, clock

BERLIN = ZoneInfo("Europe/Berlin")
WORK = frozenset(range(5))
EVERY = frozenset(range(7))


@pytest.mark.parametrize(
    "schedule, moment, holds",
    [
        # 2030-01-07 is a Monday; Berlin is an hour ahead of UTC in winter.
        (WeeklyWindow(WORK, 9 * 60, 17 * 60, BERLIN), "2030-01-07 08:00", True),
        (WeeklyWindow(WORK, 9 * 60, 17 * 60, BERLIN), "2030-01-07 07:59", False),
        (WeeklyWindow(WORK, 9 * 60, 17 * 60, BERLIN), "2030-01-07 15:59", True),
        (WeeklyWindow(WORK, 9 * 60, 17 * 60, BERLIN), "2030-01-07 16:00", False),
        (WeeklyWindow(WORK, 9 * 60, 17 * 60, BERLIN), "2030-01-12 10:00", False),
        # From Friday evening into Saturday morning, and not from Saturday into Sunday.
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-11 17:00", True),
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-12 06:59", True),
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-12 07:00", False),
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-12 17:00", False),
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-13 06:59", False),
        (WeeklyWindow(WORK, 18 * 60, 8 * 60, BERLIN), "2030-01-14 06:59", False),
        (WeeklyWindow(frozenset({6}), 18 * 60, 8 * 60, BERLIN), "2030-01-14 06:59", True),
        # Whole days, of the zone and not of UTC; until midnight.
        (WeeklyWindow(frozenset({5}), 0, 24 * 60, BERLIN), "2030-01-11 23:00", True),
        (WeeklyWindow(frozenset({5}), 0, 24 * 60, BERLIN), "2030-01-12 23:00", False),
        (WeeklyWindow(frozenset({5}), 18 * 60, 0, BERLIN), "2030-01-12 22:59", True),
        (WeeklyWindow(frozenset({5}), 18 * 60, 0, BERLIN), "2030-01-12 23:00", False),
        # Clocks go forward on 2030-03-31 at 01:00 UTC, from 02:00 to 03:00: the hour between belongs to nothing.
        (WeeklyWindow(EVERY, 2 * 60, 3 * 60, BERLIN), "2030-03-31 00:59", False),
        (WeeklyWindow(EVERY, 2 * 60, 3 * 60, BERLIN), "2030-03-31 01:00", False),
        (WeeklyWindow(EVERY, 3 * 60, 4 * 60, BERLIN), "2030-03-31 01:00", True),
        # They go back on 2030-10-27 at 01:00 UTC, from 03:00 to 02:00: the hour before belongs to it twice.
        (WeeklyWindow(EVERY, 2 * 60, 3 * 60, BERLIN), "2030-10-27 00:30", True),
        (WeeklyWindow(EVERY, 2 * 60, 3 * 60, BERLIN), "2030-10-27 01:30", True),
        (WeeklyWindow(EVERY, 2 * 60, 3 * 60, BERLIN), "2030-10-27 02:00", False),
    ],
)
def test_holds_by_the_clocks_there(schedule: WeeklyWindow, moment: str, *, holds: bool) -> None:
    now = datetime.fromisoformat(f"{moment}:00+00:00")
    assert schedule.holds(now) is holds
    assert schedule.holds(now + timedelta(seconds=59)) is holds


def test_a_moment_without_a_zone_is_no_moment() -> None:
    with pytest.raises(ValueError, match="without a time zone"):
        WeeklyWindow(EVERY, 0, 60, BERLIN).holds(datetime(2030, 1, 7))  # noqa: DTZ001 - that is what is tested
    assert WeeklyWindow(EVERY, 0, 60, BERLIN).holds(datetime(2030, 1, 6, 23, tzinfo=UTC))


def test_is_written_in_one_way() -> None:
    assert str(WeeklyWindow(frozenset({4, 0}), 18 * 60, 8 * 60 + 5, BERLIN)) == "mon,fri 18:00-08:05 Europe/Berlin"
    assert (clock(0), clock(24 * 60)) == ("00:00", "24:00")
