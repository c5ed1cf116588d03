"""Schedules and reminders as they are made, listed and ended: checked, within the caps, and in the audit.

Each keeps the label of what made it. It is listed to those whose label that flows to, and to anybody else it is as one
that never was (law `no_read_up`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.core.errors import NotFoundError
from bot.sessions.ports.runs import ScheduleStore
from bot.sessions.runs import RunType
from bot.sessions.schedules import Overlap, Schedule, ScheduleKind
from policy.document.model import Document
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class ScheduleWish:
    """A schedule that is wanted: `when` in words or as a line of cron, in `time_zone`, empty for the usual one.

    `text` is the goal of its runs, or what is said. `deliver_to` names who hears it, empty for where it is asked for.
    """

    kind: ScheduleKind
    when: str
    text: str
    time_zone: str = ""
    title: str = ""
    deliver_to: str = ""
    run_type: RunType = RunType.AUTONOMOUS
    slot: str = ""
    overlap: Overlap = Overlap.SKIP


@dataclass(frozen=True, slots=True)
class ScheduleMaker:
    """Who makes a schedule: whose it is to be, the person who asks, and the most that both may know.

    `label` is that of what makes it. `asked_at` is the address, as text, from which it is asked for. `by_agent` tells
    that an agent asks, with their approval.
    """

    principal: str
    asker: str
    ceiling: Label
    label: Label
    asked_at: str
    by_agent: bool = False


class ScheduleKeeper:
    """Makes, lists and ends schedules. `most` are active per principal and label, `time_zone` is the usual one.

    `document` is the policy in force, and `now` the store's clock, in milliseconds since the epoch.
    """

    def __init__(
        self,
        store: ScheduleStore,
        *,
        document: Callable[[], Document],
        now: Callable[[], Awaitable[int]],
        most: int,
        time_zone: str,
    ) -> None:
        self._store = store
        self._document = document
        self._now = now
        self._most = most
        self._time_zone = time_zone

    async def make(self, maker: ScheduleMaker, wish: ScheduleWish, key: str) -> Schedule:
        """Make a schedule; the same `key` again is the same schedule.

        Raises:
            RequestError: it names no moment to come, or nobody who may hear it.
            BusyError: as many are active as may.
            StoreError: it cannot be kept.
        """
        raise NotImplementedError

    async def listed(self, principal: str, reader: Label) -> tuple[Schedule, ...]:
        """Return the schedules of a principal that a reader may know of, oldest first. Raises StoreError."""
        raise NotImplementedError

    async def find(self, principal: str, reader: Label, name: str) -> Schedule:
        """Return one of them by its id. Raises NotFoundError: there is none that they may know of. StoreError."""
        raise NotFoundError

    async def pause(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Let a schedule rest; one that rests stays so. Raises NotFoundError, RequestError: it is done. StoreError."""
        raise NotFoundError

    async def resume(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Let a schedule go on, from its next moment. Raises NotFoundError. RequestError: none is left. StoreError."""
        raise NotFoundError

    async def cancel(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Forget a schedule, and return what it was; a run that it started goes on. Raises NotFoundError, StoreError."""
        raise NotFoundError
