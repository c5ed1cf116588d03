"""The end of an access is a moment, and a text that could mean several is refused."""

import re

import pytest

from policy.document.ends import end


@pytest.mark.parametrize(
    "written, moment",
    [
        ("2027-01-31", "2027-02-01T00:00:00+00:00"),
        ("2027-01-31 Europe/Berlin", "2027-01-31T23:00:00+00:00"),
        ("2027-01-31T18:00Z", "2027-01-31T18:00:00+00:00"),
        ("2027-01-31 18:00:30+01:00", "2027-01-31T17:00:30+00:00"),
        ("2027-07-31 18:00 Europe/Berlin", "2027-07-31T16:00:00+00:00"),
        # Clocks show it twice, and skip it: the earlier reading counts.
        ("2027-10-31 02:30 Europe/Berlin", "2027-10-31T00:30:00+00:00"),
        ("2027-03-28 02:30 Europe/Berlin", "2027-03-28T00:30:00+00:00"),
    ],
)
def test_a_date_ends_with_its_day_and_a_time_has_a_zone(written: str, moment: str) -> None:
    read = end(written)
    assert read is not None
    assert read.isoformat() == moment
    assert end(read) == read


@pytest.mark.parametrize(
    "written, told",
    [
        ("2027-01-31 18:00", "has no time zone, add one as in `2027-01-31 18:00Z`"),
        ("2027-01-31Z", "`2027-01-31Z` has no time, write one as `2027-01-31`"),
        ("2027-02-30", "is not a date or time, write one as `2027-01-31`"),
        ("9999-12-31", "is not a date or time"),
        ("2027-01-31 25:00Z", "is not a date or time"),
        ("0001-01-01 00:00+01:00", "is not a date or time"),
        ("2027-01-31 18:00 Europe/Berln", "unknown time zone `Europe/Berln`, did you mean `Europe/Berlin`?"),
        ("tomorrow", "is not a date or time"),
        (3, "`3` is not a date or time"),
        (False, "`False` is not a date or time"),
    ],
)
def test_any_other_text_is_refused(written: object, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        end(written)


def test_no_end_is_none() -> None:
    assert end(None) is None
