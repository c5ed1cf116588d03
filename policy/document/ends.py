"""How an end of access is read: a date, or a time with its zone.

A date without a zone ends with that day, UTC. A time needs a zone, since a guess could let a person in for hours longer
than its author meant. A time that clocks show twice, or skip, is the earlier of its two readings.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from policy.document.reading import refusal
from policy.document.reading_rules import zone

_WRITTEN: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2})?))?"
    r"(?:(?P<offset>Z|[+-]\d{2}:\d{2})|[ ](?P<zone>[A-Za-z][A-Za-z0-9_+/-]*))?\Z",
    re.ASCII,
)
_SHAPES: Final = "write one as `2027-01-31`, `2027-01-31 18:00 Europe/Berlin` or `2027-01-31T18:00Z`"


def end(value: object) -> datetime | None:
    """Return the moment at which an access ends, in UTC, None for an access without an end.

    Raises ValueError: the value is neither a date nor a time with a zone.
    """
    if value is None or isinstance(value, datetime):
        return value
    match = _WRITTEN.match(value) if isinstance(value, str) else None
    if match is None:
        raise refusal(f"`{value}` is not a date or time, {_SHAPES}")
    if match["time"] is not None and match["offset"] is None and match["zone"] is None:
        raise refusal(f"`{value}` has no time zone, add one as in `{value}Z` or `{value} Europe/Berlin`")
    if match["time"] is None and match["offset"] is not None:
        raise refusal(f"`{value}` has no time, {_SHAPES}")
    place = UTC if match["zone"] is None else zone(match["zone"])
    try:
        return _moment(match, place)
    except (ValueError, OverflowError):
        raise refusal(f"`{value}` is not a date or time, {_SHAPES}") from None


def _moment(match: re.Match[str], place: tzinfo) -> datetime:
    day = date.fromisoformat(match["day"])
    if match["time"] is None:
        local = datetime.combine(day, time()) + timedelta(days=1)
    else:
        local = datetime.combine(day, time.fromisoformat(match["time"]))
    if match["offset"] is not None:
        return datetime.fromisoformat(f"{local.isoformat()}{match['offset']}").astimezone(UTC)
    return min(local.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
