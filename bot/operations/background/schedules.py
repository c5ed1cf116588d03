"""Schedules and reminders as people and programs make, see and end them: chat, API and command line share this.

One is made by the gate, as an agent's call of `schedule_create` is. Each keeps the label of its maker's words for ever,
and a reader's clearance is compared with that (law `no_read_up`). A run that it started is shown only if the viewer may
know of that run.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.core.errors import DedupeConflictError, NotFoundError
from bot.operations.background.runs import RunViewer, named_in, run_of
from bot.operations.gated_calls import GatedCalls, RefusedCall
from bot.schedules.keeper import ScheduleKeeper, ScheduleWish
from bot.sessions.background.schedules import Schedule, ScheduleKind
from bot.sessions.ports.store import Store
from bot.sessions.visibility import LONGEST_ID
from policy.labels import Label

CREATE: Final = "schedule_create"
"""The tool by which schedules and reminders are made."""


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """A schedule that the viewer may know of.

    `last_run` is the id of its last run, empty for none that they may know of.
    """

    schedule: Schedule
    last_run: str = ""
    last_label: Label | None = None

    @property
    def label(self) -> Label:
        """The label of facts about it."""
        return self.schedule.label if self.last_label is None else self.schedule.label.join(self.last_label)


class ScheduleOperations:
    """Makes, shows and ends schedules for people and programs; an operator's viewer has no principal."""

    def __init__(self, *, store: Store, keeper: ScheduleKeeper, calls: GatedCalls) -> None:
        self._store = store
        self._keeper = keeper
        self._calls = calls

    async def create(
        self, standing: DecisionContext, key: str, wish: ScheduleWish, typed: Label
    ) -> Schedule | RefusedCall:
        """Make a schedule for the caller, through the gate; the same `key` there is the same schedule.

        `typed` is the label of their words: the schedule keeps it, and its runs begin with it.

        Raises:
            RequestError: it cannot be made as it is wanted.
            BusyError: they have as many as may be.
            DedupeConflictError: the key came with another wish.
            StoreError: the store cannot be used.
        """
        made = await self._calls.made(standing, Call(key, CREATE, _arguments(wish)), typed)
        if isinstance(made, RefusedCall):
            return made
        kept = await self._store.schedules.schedule(named_in(made, "id"))
        if kept is None:
            # It was due and gone, or cancelled, before this was answered.
            raise NotFoundError
        wished = (wish.kind, wish.text, wish.title, wish.deliver_to, wish.overlap, wish.time_zone or kept.zone)
        if (kept.kind, kept.text, kept.title, kept.deliver_to, kept.overlap, kept.zone) != wished:
            raise DedupeConflictError
        return kept

    async def listed(self, by: RunViewer) -> tuple[KnownSchedule, ...]:
        """Return the schedules that the viewer may know of, oldest first. Raises StoreError."""
        if by.principal:
            found = await self._keeper.listed(by.principal, by.reader)
            if by.chat:
                here = await self._keeper.listed(by.chat, by.reader)
                found += tuple(one for one in here if one.asker == by.principal)
        else:
            found = tuple(one for one in await self._store.schedules.every() if one.label.flows_to(by.reader))
        return tuple([await self._known(one, by.reader) for one in found])

    async def show(self, by: RunViewer, name: str) -> KnownSchedule:
        """Return a schedule by its id.

        Raises:
            NotFoundError: the viewer may know of no such schedule.
            StoreError: the store cannot be used.
        """
        return await self._known(await self._found(by, name), by.reader)

    async def pause(self, by: RunViewer, name: str) -> KnownSchedule:
        """Let a schedule rest.

        Raises:
            NotFoundError: it is done.
            RequestError: it is done.
            StoreError: the store cannot be used.
        """
        whose = (await self._found(by, name)).principal
        return await self._known(await self._keeper.pause(whose, by.reader, name, by.actor), by.reader)

    async def resume(self, by: RunViewer, name: str) -> KnownSchedule:
        """Resume a paused schedule, from its next moment.

        Raises:
            NotFoundError: no moment is left.
            RequestError: no moment is left.
            BusyError: as many are active as may.
            StoreError: the store cannot be used.
        """
        whose = (await self._found(by, name)).principal
        return await self._known(await self._keeper.resume(whose, by.reader, name, by.actor), by.reader)

    async def cancel(self, by: RunViewer, name: str) -> KnownSchedule:
        """Forget a schedule, and return its last state; its runs go on. Raises NotFoundError, StoreError."""
        whose = (await self._found(by, name)).principal
        return await self._known(await self._keeper.cancel(whose, by.reader, name, by.actor), by.reader)

    async def _found(self, by: RunViewer, name: str) -> Schedule:
        found = await self._store.schedules.schedule(name) if len(name) <= LONGEST_ID else None
        if found is None or not _has(by, found) or not found.label.flows_to(by.reader):
            raise NotFoundError
        return found

    async def _known(self, schedule: Schedule, reader: Label) -> KnownSchedule:
        state = await self._store.sessions.state(schedule.last_run) if schedule.last_run else None
        run = None if state is None else run_of(state)
        if run is None or not run.label.flows_to(reader):
            return KnownSchedule(schedule)
        return KnownSchedule(schedule, run.id, run.label)


def _has(by: RunViewer, schedule: Schedule) -> bool:
    if not by.principal or schedule.principal == by.principal:
        return True
    return bool(by.chat) and schedule.principal == by.chat and schedule.asker == by.principal


def _arguments(wish: ScheduleWish) -> dict[str, JsonValue]:
    """Return the arguments of the call that makes a schedule; an omitted one is as configured."""
    runs = wish.kind is ScheduleKind.RUN
    more: dict[str, JsonValue] = {
        "time_zone": wish.time_zone,
        "deliver_to": wish.deliver_to,
        "title": wish.title,
        "overlap": wish.overlap.value if runs else "",
    }
    given = {name: value for name, value in more.items() if value}
    return {"kind": wish.kind.value, "when": wish.when, "text": wish.text, **given}
