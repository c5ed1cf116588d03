"""Schedules: the times of the week, on the clocks of one time zone, at which a rule is in force.

A window begins on one of the `days` at `start` and ends at `stop`; a `stop` at or before `start` is a time of the next
day. Local time counts: when clocks are put back, the repeated hour belongs to the window twice; a skipped hour belongs
to none.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class WeeklyWindow:
    """A weekly window; `days` counts from Monday, 0, `start` and `stop` are minutes since midnight."""

    days: frozenset[int]
    start: int
    stop: int
    zone: ZoneInfo

    def holds(self, now: datetime) -> bool:
        """Say whether a moment lies in the window.

        Raises ValueError: the moment does not say which one it is, having no time zone.
        """
        if now.utcoffset() is None:
            raise ValueError("a moment without a time zone")
        there = now.astimezone(self.zone)
        minute, today = there.hour * 60 + there.minute, there.weekday()
        if self.start < self.stop:
            return today in self.days and self.start <= minute < self.stop
        return (today in self.days and minute >= self.start) or ((today - 1) % 7 in self.days and minute < self.stop)

    def __str__(self) -> str:
        days = ",".join(DAYS[day] for day in sorted(self.days))
        return f"{days} {clock(self.start)}-{clock(self.stop)} {self.zone.key}"


def clock(minute: int) -> str:
    """Return a minute of the day as clocks show it."""
    return f"{minute // 60:02}:{minute % 60:02}"
