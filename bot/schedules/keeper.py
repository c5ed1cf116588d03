"""Schedules and reminders as they are made, listed and ended: checked, within the caps, and in the audit.

Each keeps the label of its maker's words. It is listed to readers that its label flows to; to all others it does not
exist (law `no_read_up`). The row of the audit that tells of a change is written with it, in one step; it names the
schedule and holds nothing of its text.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling, recipients
from bot.core.errors import BusyError, NotFoundError, RequestError
from bot.schedules import calendar, phrases
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import RunType
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus
from bot.sessions.ports.runs import ScheduleStore
from bot.sessions.refs import Ref
from channels.messages import Address
from policy.document.model import Document
from policy.document.reading import API
from policy.labels import PUBLIC, Label

NOT_CLEARED: Final = "the recipient may not be told what this schedule begins with, so nothing would be said there"
UNHEARD: Final = "nobody hears a reminder that a program makes for itself"
DONE: Final = "this schedule is done, no moment of it is left"

_ID: Final = 16
_TRIES: Final = 20
"""How often a change is made anew because the schedule was due meanwhile."""


@dataclass(frozen=True, slots=True)
class ScheduleWish:
    """A schedule that is wanted: `when` in words or as a line of cron, in `time_zone`, empty for the usual one.

    `text` is the goal of its runs, or the text of the reminder. `deliver_to` names who hears it, empty for where it is
    asked for.
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
    """The maker of a schedule: whose it is to be, the person who asks, and the clearance that both have.

    `label` is the label of the request. `asked_at` is the address of the request, as text. `by_agent` tells that an
    agent asks, with their approval, and `authors` are the people besides whose words it has read. `refs` are the
    sources of their words.
    """

    principal: str
    asker: str
    ceiling: Label
    label: Label
    asked_at: str
    by_agent: bool = False
    authors: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()


class ScheduleKeeper:
    """Makes, lists and ends schedules. `most` are active per principal and label, `time_zone` is the usual one.

    `document` is the policy in force, and `now` the store's clock, in milliseconds since the epoch.
    """

    def __init__(
        self,
        store: ScheduleStore,
        *,
        document: Callable[[], Document],
        now: Callable[[], int],
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
            RequestError: it names no moment to come, or no recipient who may hear it.
            BusyError: as many are active as may.
            StoreError: it cannot be kept.
        """
        name = f"s_{hashlib.sha256(key.encode()).hexdigest()[:_ID]}"
        known = await self._store.schedule(name)
        if known is not None:
            return known
        if wish.kind is ScheduleKind.REMINDER and not wish.deliver_to and _of_program(maker):
            raise RequestError(UNHEARD, next_step="name who hears it with `deliver_to`")
        # The table of a zone is read from a file.
        zone = await asyncio.to_thread(calendar.zone, wish.time_zone or self._time_zone)
        now = self._now()
        when = phrases.parse(wish.when, zone, now)
        made = Schedule(
            id=name,
            principal=maker.principal,
            asker=maker.asker,
            kind=wish.kind,
            text=wish.text,
            label=maker.label,
            cron=when.cron,
            zone=zone.key,
            next_at=when.first,
            created_at=now,
            asked_at=maker.asked_at,
            title=wish.title,
            deliver_to=wish.deliver_to,
            meant=self._meant(maker, wish.deliver_to),
            run_type=wish.run_type,
            slot=wish.slot,
            overlap=wish.overlap,
            by_agent=maker.by_agent,
            authors=maker.authors,
            refs=maker.refs,
        )
        await self._store.add(made, self._most, (row(made, maker.asker, "add"),))
        return made

    async def listed(self, principal: str, reader: Label) -> tuple[Schedule, ...]:
        """Return the schedules of a principal that a reader may know of, oldest first. Raises StoreError."""
        return tuple(one for one in await self._store.of(principal) if one.label.flows_to(reader))

    async def find(self, principal: str, reader: Label, name: str) -> Schedule:
        """Return one of them by its id.

        Raises:
            NotFoundError: there is none that they may know of.
            StoreError: the store cannot be used.
        """
        found = await self._store.schedule(name)
        if found is None or found.principal != principal or not found.label.flows_to(reader):
            raise NotFoundError
        return found

    async def pause(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Let a schedule rest; one that rests stays so.

        Raises:
            NotFoundError: it is done.
            RequestError: it is done.
            StoreError: the store cannot be used.
        """
        for _ in range(_TRIES):
            found = await self.find(principal, reader, name)
            if found.status is ScheduleStatus.DONE:
                raise RequestError(DONE)
            rests = replace(found, status=ScheduleStatus.PAUSED)
            if rests == found or await self._store.replace(found, rests, (row(found, actor, "pause"),)):
                return rests
        raise BusyError

    async def resume(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Resume a paused schedule, from its next moment.

        Raises NotFoundError. RequestError: none is left. BusyError: as many are active as may. StoreError.
        """
        for _ in range(_TRIES):
            found = await self.find(principal, reader, name)
            if found.status is ScheduleStatus.ACTIVE:
                return found
            next_at = await self._next(found)
            if not next_at:
                raise RequestError(DONE, next_step="make another one")
            await self._with_room(found)
            goes_on = replace(found, status=ScheduleStatus.ACTIVE, next_at=next_at, failures=0)
            if await self._store.replace(found, goes_on, (row(found, actor, "resume"),)):
                return goes_on
        raise BusyError

    async def cancel(self, principal: str, reader: Label, name: str, actor: str) -> Schedule:
        """Forget a schedule, and return its last state; its runs go on. Raises NotFoundError, StoreError."""
        found = await self.find(principal, reader, name)
        if not await self._store.drop(name, (row(found, actor, "cancel"),)):
            raise NotFoundError
        return found

    def _meant(self, maker: ScheduleMaker, name: str) -> str:
        """Return the present meaning of a recipient's name, empty for none.

        Raises RequestError: it leads nowhere, or to a place that is not cleared even for the request.
        """
        if not name:
            return ""
        document = self._document()
        try:
            address = recipients.find(document, maker, name)
        except recipients.UnknownRecipientError:
            raise RequestError(recipients.UNKNOWN) from None
        if not maker.label.flows_to(labelling.expected(document, address).clearance or PUBLIC):
            raise RequestError(NOT_CLEARED, next_step="name a recipient who is cleared for it")
        return recipients.meaning(document, address)

    async def _next(self, schedule: Schedule) -> int:
        """Return the next moment of a schedule, 0 for none."""
        now = self._now()
        if schedule.cron:
            zone = await asyncio.to_thread(calendar.zone, schedule.zone)
            return calendar.next_moment(schedule.cron, zone, now)
        return schedule.next_at if schedule.next_at > now else 0

    async def _with_room(self, schedule: Schedule) -> None:
        """Raise BusyError if as many of the principal's schedules are active as may, of the label's pool."""
        pool = schedule.label.secrecy
        others = await self._store.of(schedule.principal)
        if sum(one.status is ScheduleStatus.ACTIVE and one.label.secrecy == pool for one in others) >= self._most:
            raise BusyError


def _of_program(maker: ScheduleMaker) -> bool:
    return Address.parse(maker.asked_at).channel == API


def row(schedule: Schedule, actor: str, done: str, **more: str) -> AuditRow:
    """Return the row of the audit about an action on a schedule."""
    facts: dict[str, str | bool] = {
        "do": done,
        "schedule": schedule.id,
        "kind": schedule.kind.value,
        "principal": schedule.principal,
        "label": str(schedule.label),
        "by_agent": schedule.by_agent,
    }
    return AuditRow("schedule", actor, {**facts, **more})
