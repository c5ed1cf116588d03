"""The only module that asks the machine for the time; all other code is given a clock.

Wall time is for time stamps and dates that people read. Durations come from the monotonic clock, which no clock change
moves, and which goes on while the machine sleeps. Leases and expiries use neither: the store's own clock decides them.
"""

import time
from datetime import UTC, datetime
from typing import Final, Protocol

LAST_MS: Final = 253_402_300_799_999
"""The last moment that can be written for people: the end of the year 9999."""


_LASTING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that goes on while the machine sleeps: Linux has one apart, on macOS it is the monotonic one."""


class Clock(Protocol):
    """Tells the time."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls, and goes on while the machine sleeps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never falls, and goes on while the machine sleeps."""
        return time.clock_gettime(_LASTING)


def moment(milliseconds: int) -> str:
    """Return a time in milliseconds since the epoch, at most `LAST_MS`, as people write it, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
