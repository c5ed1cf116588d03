"""A slow reading of what a line of cron means: minute by minute, by what a clock on the wall shows, with no library.

It shares no code with `bot.schedules.calendar`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class Minute(NamedTuple):
    """A minute of real time, what the wall shows, whether it shows that again, and what it skipped just before."""

    at: int
    wall: datetime
    again: bool
    skipped: tuple[datetime, ...]


@dataclass(frozen=True)
class Line:
    """A line of cron, as the sets of what its fields allow."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool
    real: bool

    def shows(self, wall: datetime) -> bool:
        """Say whether a time on the wall is one of the line's."""
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, (wall.weekday() + 1) % 7 in self.weekdays
        return (day and weekday) if self.both else (day or weekday)

    def due(self, minute: Minute) -> bool:
        """Say whether the line is due in a minute."""
        if self.real:
            return self.shows(minute.wall)
        return (self.shows(minute.wall) and not minute.again) or any(map(self.shows, minute.skipped))


def line(text: str) -> Line:
    """Read a line of numbers, ranges, steps and lists."""
    fields = text.split()
    minutes, hours, days, months, weekdays = (field(one, *of) for one, of in zip(fields, RANGES, strict=True))
    both = fields[2].startswith("*") or fields[4].startswith("*")
    return Line(
        minutes, hours, days, months, frozenset(day % 7 for day in weekdays), both, real=fields[1].startswith("*")
    )


def field(text: str, low: int, high: int) -> frozenset[int]:
    found = set[int]()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or (high if step else first)))
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def minutes(zone: ZoneInfo, begins: datetime, ends: datetime) -> Iterator[Minute]:
    """Yield every minute from a moment until before another."""
    before = datetime.fromtimestamp(begins.timestamp() - 60, zone).replace(tzinfo=None)
    latest = before - _MINUTE
    for at in range(round(begins.timestamp()), round(ends.timestamp()), 60):
        wall = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
        after = before + _MINUTE
        if wall == after > latest:
            # As nearly always.
            yield Minute(at * 1000, wall, again=False, skipped=())
        else:
            skipped = (after + _MINUTE * n for n in range(max(0, (wall - after) // _MINUTE)))
            yield Minute(at * 1000, wall, again=wall <= latest, skipped=tuple(skipped))
        before, latest = wall, max(latest, wall)


def due(lines: Sequence[str], zone: ZoneInfo, begins: datetime, ends: datetime) -> dict[str, list[int]]:
    """Return when each of some lines is due, from a moment until before another, in ms since the epoch."""
    read = {text: line(text) for text in lines}
    found = {text: list[int]() for text in lines}
    shown = tuple([(text, one) for text, one in read.items() if minute in one.minutes] for minute in range(60))
    for minute in minutes(zone, begins, ends):
        for text, one in read.items() if minute.skipped else shown[minute.wall.minute]:
            if one.due(minute):
                found[text].append(minute.at)
    return found
