"""Schedules and reminders as people and programs make, see and end them: a chat, the API and the command line share this.

One is made by the gate, as an agent's call of `schedule_create` is. Each has the label of what made it for ever, so who
may be told of one is compared with that (law `no_read_up`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.core.errors import NotFoundError, RequestError
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.operations.runs import RunViewer
from bot.sessions.ports.store import Store
from bot.sessions.schedules import Overlap, Schedule, ScheduleKind
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """A schedule or reminder that is wanted: as the arguments of `schedule_create`, empty for what is configured.

    `when` is a line of cron, or a moment in words. `text` is the goal of its runs, or what is said.
    """

    kind: ScheduleKind
    when: str
    text: str
    time_zone: str = ""
    deliver_to: str = ""
    title: str = ""
    overlap: Overlap = Overlap.SKIP

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """The arguments of the call that makes it."""
        more: dict[str, JsonValue] = {
            "time_zone": self.time_zone,
            "deliver_to": self.deliver_to,
            "title": self.title,
            "overlap": self.overlap.value if self.kind is ScheduleKind.RUN else "",
        }
        given = {name: value for name, value in more.items() if value}
        return {"kind": self.kind.value, "when": self.when, "text": self.text, **given}


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """A schedule that may be told of; `last_run` is the id of its last run, empty for one that may not be told of."""

    schedule: Schedule
    last_run: str = ""

    @property
    def label(self) -> Label:
        """The label of what telling of it tells."""
        return self.schedule.label


class ScheduleOperations:
    """Makes, shows and ends schedules for people and programs. The viewer's principal is empty for an operator."""

    def __init__(self, *, store: Store, calls: GatedCalls) -> None:
        self._store = store
        self._calls = calls

    async def create(
        self, standing: DecisionContext, key: str, wanted: ScheduleRequest, typed: Label
    ) -> KnownSchedule | RefusedCall:
        """Make a schedule for who stands there, through the gate; the same `key` there is the same schedule.

        Raises RequestError: it cannot be made as it is wanted. BusyError: they have as many as may be. StoreError.
        """
        raise NotImplementedError

    async def listed(self, by: RunViewer) -> tuple[KnownSchedule, ...]:
        """Return the schedules that may be told of, oldest first. Raises StoreError."""
        raise NotImplementedError

    async def show(self, by: RunViewer, name: str) -> KnownSchedule:
        """Return a schedule by its id. Raises NotFoundError: there is none that may be told of. StoreError."""
        raise NotImplementedError

    async def pause(self, by: RunViewer, name: str) -> KnownSchedule:
        """Let a schedule rest. Raises NotFoundError, RequestError, StoreError."""
        raise NotImplementedError

    async def resume(self, by: RunViewer, name: str) -> KnownSchedule:
        """Let a schedule that rests go on, from its next moment. Raises NotFoundError, RequestError, StoreError."""
        raise NotImplementedError

    async def cancel(self, by: RunViewer, name: str) -> KnownSchedule:
        """Forget a schedule; what it started goes on. Raises NotFoundError, StoreError."""
        raise NotImplementedError
