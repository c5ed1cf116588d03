"""Moments in words: `in 20 minutes`, `tomorrow 9:00`, `2026-12-01 08:30`, `every weekday 9:00`, or a line of cron."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class When:
    """When something is due: first at `first`, in ms since the epoch, then by the line `cron`, empty for only once."""

    first: int
    cron: str = ""


def parse(text: str, where: ZoneInfo, now: int) -> When:
    """Return the moments that a text names in a time zone, seen from `now`, in milliseconds since the epoch.

    Raises WhenError: it names none, or none that is still to come.
    """
    raise NotImplementedError
