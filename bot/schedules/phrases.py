"""Moments in words: `in 20 minutes`, `tomorrow 9:00`, `2026-12-01 08:30`, `every weekday 9:00`, or a line of cron.

Days and times are those on the wall of a time zone; `calendar` handles clock changes. `in 2 hours` is two hours of real
time; `in 2 days` is the same time on the wall, two days on.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from bot.schedules.calendar import FARTHEST, WhenError, at_wall, checked, next_moment, on_wall

LONGEST: Final = 200
"""Characters of a phrase."""

EXAMPLES: Final = (
    "write `in 20 minutes`, `tomorrow 9:00`, `2026-12-01 08:30`, `every weekday 9:00`,"
    " or a line of cron like `0 9 * * 1-5`"
)

_FIELDS: Final = 5
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEK: Final = len(_DAYS)
_DAY: Final = timedelta(days=1)
_EACH: Final = MappingProxyType({"day": "*", "weekday": "1-5"} | {day: str(n) for n, day in enumerate(_DAYS, 1)})
"""The words that may follow `every`, with the last field of a line of cron for each."""

_SECONDS: Final = MappingProxyType({"second": 1, "minute": 60, "hour": 3600})
_UNITS: Final = MappingProxyType({"day": 1, "week": _WEEK})
"""Units of real time in seconds, and those of the wall in days."""

_TIME: Final = r"(?:at )?([0-9]{1,2}):([0-9]{2})"
_IN: Final = re.compile(r"in (an?|[0-9]{1,6}) (second|minute|hour|day|week)s?")
_ON: Final = re.compile(rf"(?:on )?(today|tomorrow|{'|'.join(_DAYS)}),? {_TIME}")
_DATE: Final = re.compile(rf"(?:on )?([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})[ t]{_TIME}")
_NEXT: Final = re.compile(_TIME)
_EVERY: Final = re.compile(rf"every ({'|'.join(_EACH)}) {_TIME}")
_OFTEN: Final = re.compile(r"every (?:([0-9]{1,2}) )?(minute|hour)s?")


@dataclass(frozen=True, slots=True)
class When:
    """When something is due: first at `first`, in ms since the epoch, then by the line `cron`, empty for only once."""

    first: int
    cron: str = ""


def parse(text: str, where: ZoneInfo, now: int) -> When:
    """Return the moments that a text names in a time zone, seen from `now`, in milliseconds since the epoch.

    Raises WhenError: it names none, or none that is still to come within ten years.
    """
    said = " ".join(text.lower().split())
    if len(said) > LONGEST:
        raise _unclear()
    cron = _line(said)
    first = next_moment(cron, where, now) if cron else _once(said, where, now)
    if cron and not first:
        raise WhenError("this line of cron is not due within ten years", next_step=EXAMPLES)
    if first <= now:
        raise WhenError("this moment has passed", next_step="name one that is still to come")
    if first - now > FARTHEST.total_seconds() * 1000:
        raise WhenError("this moment is more than ten years away", next_step="name one that is nearer")
    return When(first, cron)


def _line(said: str) -> str:
    """Return the line of cron that a phrase stands for, empty for one that names a single moment."""
    if match := _EVERY.fullmatch(said):
        wall = _time(match[2], match[3])
        return f"{wall.minute} {wall.hour} * * {_EACH[match[1]]}"
    if match := _OFTEN.fullmatch(said):
        return _often(int(match[1] or 1), match[2])
    return checked(said) if said.count(" ") == _FIELDS - 1 and said[:1] in "*0123456789" else ""


def _often(number: int, unit: str) -> str:
    """Return the line that is due every so many minutes or hours, which must divide an hour or a day."""
    whole = 60 if unit == "minute" else 24
    if not number or whole % number:
        raise WhenError(f"`every {number} {unit}s` does not divide {whole} {unit}s evenly", next_step=EXAMPLES)
    step = "*" if number == 1 else f"*/{number}"
    return f"{step} * * * *" if unit == "minute" else f"0 {step} * * *"


def _once(said: str, where: ZoneInfo, now: int) -> int:
    """Return the single moment that a phrase names."""
    for pattern, read in ((_IN, _from_now), (_ON, _on_day), (_DATE, _on_date), (_NEXT, _at_time)):
        if match := pattern.fullmatch(said):
            return read(match, where, now)
    raise _unclear()


def _from_now(match: re.Match[str], where: ZoneInfo, now: int) -> int:
    number = int(match[1]) if match[1].isdigit() else 1
    if match[2] in _SECONDS:
        return now + number * _SECONDS[match[2]] * 1000
    days = min(number * _UNITS[match[2]], FARTHEST.days + 2)
    # Not earlier than now, where the second is begun.
    return at_wall(on_wall(now, where) + timedelta(days=days), where) + now % 1000


def _on_day(match: re.Match[str], where: ZoneInfo, now: int) -> int:
    today, wall = on_wall(now, where).date(), _time(match[2], match[3])
    match match[1]:
        case "today":
            days = 0
        case "tomorrow":
            days = 1
        case day:
            days = (_DAYS.index(day) - today.weekday()) % _WEEK
    found = at_wall(datetime.combine(today + timedelta(days=days), wall), where)
    if found <= now and match[1] in _DAYS:
        return at_wall(datetime.combine(today + timedelta(days=days + _WEEK), wall), where)
    return found


def _on_date(match: re.Match[str], where: ZoneInfo, now: int) -> int:
    wall = _time(match[4], match[5])
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise WhenError("there is no such date", next_step=EXAMPLES) from None
    today = on_wall(now, where).date()
    # Zones are asked for no day of the years 1 and 9999.
    return at_wall(datetime.combine(min(max(day, today - _DAY), today + FARTHEST + _DAY), wall), where)


def _at_time(match: re.Match[str], where: ZoneInfo, now: int) -> int:
    """Return the next moment at which the wall shows a time."""
    today, wall = on_wall(now, where).date(), _time(match[1], match[2])
    found = at_wall(datetime.combine(today, wall), where)
    return found if found > now else at_wall(datetime.combine(today + timedelta(days=1), wall), where)


def _time(hour: str, minute: str) -> time:
    try:
        return time(int(hour), int(minute))
    except ValueError:
        raise WhenError("there is no such time of day", next_step="write one from `0:00` to `23:59`") from None


def _unclear() -> WhenError:
    return WhenError("this names no moment", next_step=EXAMPLES)
