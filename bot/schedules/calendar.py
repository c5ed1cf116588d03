"""When a line of five cron fields is due in a time zone, also on the days on which clocks change.

The library `cronsim` reads a line as Debian's cron does: `* * 1` is Monday, 0 and 7 are Sunday. This module defines how
a line behaves where clocks change (ADR 0045). The library leaves out moments where they change by half an hour, and a
whole day of a line such as `*/20 2 * * *`. So it is asked for times on the wall alone.

A line with hours of its own follows the wall clock: a skipped time is due once, right after the gap, and a repeated one
is due the first time. A line whose hours begin with `*` follows real time: it is due whenever the wall shows it, never
in a gap, and again in an hour that comes again.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from bot.core.errors import RequestError
from policy.errors import nearest

LONGEST_LINE: Final = 200
"""Characters of a line of cron."""

FARTHEST: Final = timedelta(days=3660)
"""Nothing is due later than that: the 29th of February is at most eight years away."""

_EXAMPLE: Final = "write one as `0 9 * * 1-5`, for 9:00 from Monday to Friday"
_FIELDS: Final = 5
_HOURS: Final = 1
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)


class WhenError(RequestError):
    """A line of cron, a phrase or a time zone that says no moment."""

    code = "when"


def zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name, such as `Europe/Berlin`; the first time it is read from a file.

    Raises WhenError: the name is unknown.
    """
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A directory, or a file that is not a time zone, is not one, either.
        pass
    close = nearest(name[:64], available_timezones())
    hint = close if "did you mean" in close else ""
    raise WhenError(f"unknown time zone{hint}", next_step="name one as `Europe/Berlin` or `UTC`")


def checked(cron: str) -> str:
    """Return a line of five fields as it is kept, with one space between them.

    Raises WhenError: it is not such a line.
    """
    line = " ".join(cron.split()).upper()
    if len(line) > LONGEST_LINE or line.count(" ") != _FIELDS - 1:
        raise _no_line()
    _times(line, datetime(2000, 1, 1))  # noqa: DTZ001 - a time on the wall, and only the line is looked at
    return line


def next_moment(cron: str, where: ZoneInfo, after: int) -> int:
    """Return the first moment later than `after` at which a line is due, 0 for none within ten years.

    Both are milliseconds since the epoch. Raises WhenError: it is not a line of five fields.
    """
    fields, begins = cron.split(), datetime.fromtimestamp(after // 1000, UTC)
    if len(fields) != _FIELDS or len(cron) > LONGEST_LINE:
        # The library would take a sixth field for seconds.
        raise _no_line()
    in_real_time = fields[_HOURS].startswith("*")
    due = (_in_real_time if in_real_time else _by_wall)(cron, where, begins)
    return 0 if due is None or due - begins > FARTHEST else _milliseconds(due)


def at_wall(wall: datetime, where: ZoneInfo) -> int:
    """Return when the wall of a time zone first shows a time, in milliseconds since the epoch.

    `wall` has no time zone. For a time that is skipped it is the first moment after the gap.
    """
    return _milliseconds(_first_shown(wall, where))


def on_wall(moment: int, where: ZoneInfo) -> datetime:
    """Return the wall-clock time of a time zone at a moment in milliseconds since the epoch, without a time zone."""
    return datetime.fromtimestamp(moment // 1000, where).replace(tzinfo=None)


def _by_wall(line: str, where: ZoneInfo, begins: datetime) -> datetime | None:
    """Return when a line is due next whose times each come once a day, None for never."""
    for wall in _times(line, begins.astimezone(where).replace(tzinfo=None)):
        due = _first_shown(wall, where)
        # In a repeated hour, the shown time may have been due the first time.
        if due > begins:
            return due
    return None


def _in_real_time(line: str, where: ZoneInfo, begins: datetime) -> datetime | None:
    """Return when the wall next shows a time of a line, None for never.

    Between two changes of a clock the wall goes on like real time, so each such stretch is looked at alone.
    """
    since, ends = begins, begins + FARTHEST
    while since < ends:
        wall = since.astimezone(where).replace(tzinfo=None)
        # The time shown right after a change counts, too.
        shown = next(_times(line, wall if since == begins else wall - _SECOND), None)
        if shown is None:
            return None
        due = since + (shown - wall)
        change = _first_change(where, since, min(due, ends))
        if change is None:
            return due
        since = change
    return None


def _times(line: str, after: datetime) -> CronSim:
    """Return the times on a wall, later than one, that a line names. Raises WhenError: its fields are wrong."""
    try:
        return CronSim(line, after)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        raise WhenError(f"the field `{field}` of this line of cron is wrong", next_step=_EXAMPLE) from None


def _no_line() -> WhenError:
    return WhenError(
        "a line of cron has five fields: minute, hour, day of the month, month, day of the week", next_step=_EXAMPLE
    )


def _first_shown(wall: datetime, where: ZoneInfo) -> datetime:
    """Return, in UTC, when a time is first on the wall, or the end of the gap that skips it."""
    first = wall.replace(tzinfo=where, fold=0).astimezone(UTC)
    if first.astimezone(where).replace(tzinfo=None) == wall:
        return first
    # Of a time in a gap, the one reading is before the change and the other behind it.
    return _first_change(where, wall.replace(tzinfo=where, fold=1).astimezone(UTC), first) or first


def _first_change(where: ZoneInfo, begins: datetime, ends: datetime) -> datetime | None:
    """Return the first moment after `begins` and until `ends` at which a clock changes, None for none; all in UTC.

    No clock changes twice within a day.
    """
    offset = begins.astimezone(where).utcoffset()
    while begins < ends:
        until = min(begins + _DAY, ends)
        if until.astimezone(where).utcoffset() != offset:
            while until - begins > _SECOND:
                middle = begins + (until - begins) // (2 * _SECOND) * _SECOND
                same = middle.astimezone(where).utcoffset() == offset
                begins, until = (middle, until) if same else (begins, middle)
            return until
        begins = until
    return None


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp()) * 1000
