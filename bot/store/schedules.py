"""The part of the store about schedules, reminders and timers."""

from typing import Final

from bot.core.errors import StoreRefusedError
from bot.sessions.audit import AuditRow
from bot.sessions.schedules import Schedule, Timer
from bot.store.shared import Shared

NOT_YET: Final = "this store keeps no schedules yet"


class RedisSchedules:
    """Implements the port `ScheduleStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def add(self, schedule: Schedule, most: int, audit: tuple[AuditRow, ...]) -> None:
        """Keep a schedule with its timer."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def of(self, principal: str) -> tuple[Schedule, ...]:
        """Return a principal's schedules, oldest first."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def schedule(self, id: str) -> Schedule | None:  # noqa: A002 - as in the port
        """Return one schedule."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def replace(self, before: Schedule, after: Schedule, audit: tuple[AuditRow, ...] = ()) -> bool:
        """Put a schedule in the place of one that is still as it was seen."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def drop(self, id: str, audit: tuple[AuditRow, ...]) -> bool:  # noqa: A002 - as in the port
        """Forget a schedule and its timer."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def set_timer(self, timer: Timer) -> None:
        """Set a timer."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def take_due(self, most: int, hold_ms: int) -> tuple[tuple[Timer, ...], int]:
        """Take due timers, earliest first."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def settle(self, timer: Timer) -> None:
        """Forget a timer that was taken."""
        raise StoreRefusedError(NOT_YET, next_step="wait")

    async def next_due(self) -> int:
        """Return in how many milliseconds the next timer is due."""
        raise StoreRefusedError(NOT_YET, next_step="wait")
