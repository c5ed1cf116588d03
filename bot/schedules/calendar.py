"""When a line of five cron fields is due in a time zone, also on the days on which clocks change.

The library `cronsim` reads a line as Debian's cron does: `* * 1` is Monday, 0 and 7 are Sunday. Where clocks change this
module says when a line is due (ADR 0045). A line with hours of its own is due by the clock on the wall: a time that is
skipped is due once after the gap, and one that comes twice is due the first time. A line whose hours begin with `*` is
due whenever that clock shows it: never in a gap, and again in an hour that comes again.
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from bot.core.errors import RequestError


class WhenError(RequestError):
    """A line of cron, a phrase or a time zone that says no moment."""

    code = "when"


def zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name, such as `Europe/Berlin`. Raises WhenError: there is none."""
    raise NotImplementedError


def checked(cron: str) -> str:
    """Return a line of five fields as it is kept, with one space between them. Raises WhenError: it is none."""
    raise NotImplementedError


def next_moment(cron: str, where: ZoneInfo, after: int) -> int:
    """Return the first moment later than `after` at which a line is due, 0 for none within 50 years.

    Both are milliseconds since the epoch. Raises WhenError: it is no line of five fields.
    """
    raise NotImplementedError


def at_wall(wall: datetime, where: ZoneInfo) -> int:
    """Return when the clock on the wall of a time zone first shows a time, in milliseconds since the epoch.

    For a time that is skipped that is the first moment after the gap.
    """
    raise NotImplementedError
