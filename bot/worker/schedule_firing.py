"""The firing of schedules: a due moment starts a run, or sends a reminder.

A moment is carried out once. The keys of its run and its text are made of the schedule and the moment, so a second
worker after a crash repeats the same operation. Only after that does the schedule move to its next moment. If several
moments passed while no worker ran, one is carried out. A moment that finds no room waits for it.

A reminder is decided on like any text that leaves for an address (hook PRE_OUTPUT), when due and when sent. Where it
may not be said, it is sent to its creator alone, in private, or not at all.
"""

import asyncio
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bot.access import labelling, principals, recipients
from bot.access.authorize import Caller, Ingress, at_least, role
from bot.access.decision_context import DecisionContext
from bot.access.session_ids import SessionIds
from bot.core.errors import ArchivedError, BusyError, DeletedError, RequestError
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.pinned_agents import PinnedAgents
from bot.schedules import calendar, keeper
from bot.sessions.audit import AuditRow
from bot.sessions.background.run_states import EndReason
from bot.sessions.background.runs import RunOrder, RunWish
from bot.sessions.background.schedules import Overlap, Schedule, ScheduleKind, ScheduleStatus, Timer
from bot.sessions.deliveries import OURS, Conversation, NewDelivery
from bot.sessions.ports.store import Store
from bot.sessions.refs import ScheduleRef
from channels.messages import Address, OutboundKind
from policy.document.model import Document
from policy.labels import PUBLIC
from policy.request import Hook, Role

MOST_FAILURES: Final = 5
"""Failures in a row after which a schedule is paused."""

REMINDER: Final = "Reminder: {text}"
PAUSED: Final = "Schedule {id} is paused: it failed {failures} times in a row. `/schedule resume {id}` lets it go on."
NOT_DONE: Final = "Schedule {id} was due and could not be carried out: {why}. It has no other moment."

SOON_MS: Final = 3_000
_LATE_MS: Final = 60_000
"""The first and the longest wait, in milliseconds, of a moment that finds no room."""

_FAILED: Final = frozenset({EndReason.FAILED, EndReason.NOT_INITIALIZED, EndReason.SLOT_LOCKED})
"""Ends of a run that count as failures of its schedule."""


class Fate(StrEnum):
    """The outcome of a moment of a schedule."""

    STARTED = "started"
    SAID = "said"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Done:
    """The outcome of a moment.

    Args:
        fate: The outcome.
        run: The session of the run that was started, empty for none.
        why: The obstacle, for the audit.
        told: The obstacle, for people; empty where `why` serves.
        failed: Whether the run of the moment before had failed.
    """

    fate: Fate
    run: str = ""
    why: str = ""
    told: str = ""
    failed: bool = False


class ScheduleFiring:
    """Carries out schedules and reminders."""

    def __init__(self, store: Store, gate: Gate, session_ids: SessionIds, agents: PinnedAgents) -> None:
        self._store = store
        self._gate = gate
        self._session_ids = session_ids
        self._agents = agents

    async def due(self, timer: Timer) -> None:
        """Carry out the moment at which a schedule is due; where there is no room, set its timer again.

        Raises StoreError.
        """
        schedule = await self._store.schedules.schedule(timer.about)
        if schedule is None or schedule.status is not ScheduleStatus.ACTIVE or schedule.next_at > timer.due:
            # It was cancelled, paused or moved meanwhile.
            return
        # That it is due is known from the store's own clock.
        now = max(self._store.tokens.now_ms(), timer.due)
        try:
            done = await self._carried_out(schedule)
            after = await self._moved(schedule, done, now)
            await self._tell(after, done)
        except (BusyError, ArchivedError, DeletedError):
            # There is no room yet, or the conversation that would send it is just ending.
            wait = min(max(SOON_MS, (now - schedule.next_at) // 2), _LATE_MS)
            await self._store.schedules.set_timer(replace(timer, due=now + wait))
            return
        row = keeper.row(schedule, "timer", done.fate, due=str(schedule.next_at), run=done.run, why=done.why)
        await self._write(schedule, after, row)

    async def _write(self, schedule: Schedule, after: Schedule, row: AuditRow) -> None:
        """Write a schedule after a moment, with the audit row of that moment.

        If people changed it meanwhile, their changes stay, and the moment is noted in it.
        """
        behind: Schedule | None = after
        while behind is not None and not await self._store.schedules.replace(schedule, behind, (row,)):
            found = await self._store.schedules.schedule(schedule.id)
            if found is None:
                # It was cancelled.
                await self._store.audit.append((row,))
                return
            schedule, behind = found, _merged(found, after)

    async def _carried_out(self, schedule: Schedule) -> "_Done":
        """Start a schedule's run or send its text, unless its principal is not known any more.

        Raises BusyError: there is no room for another run.
        """
        if not _is_known(self._gate.document, schedule):
            return _Done(Fate.UNKNOWN, why="no such principal any more")
        if schedule.kind is ScheduleKind.REMINDER:
            return await self._reminded(schedule)
        if schedule.overlap is Overlap.SKIP and await self._goes_on(schedule):
            return _Done(Fate.SKIPPED)
        failed = await self._run_failed(schedule)
        if failed and schedule.failures + 1 >= MOST_FAILURES:
            return _Done(Fate.FAILED, why="its runs failed")
        try:
            started = await self._gate.start_run(_order(schedule))
        except BusyError:
            raise
        except RequestError as error:
            return _Done(Fate.FAILED, why=error.code, told=str(error))
        return _Done(Fate.STARTED, started.sid, failed=failed)

    async def _moved(self, schedule: Schedule, done: "_Done", now: int) -> Schedule:
        """Return a schedule after a moment: at its next one, done, or paused."""
        failures = schedule.failures
        if done.fate is not Fate.SKIPPED:
            failures = failures + 1 if done.failed or done.fate is Fate.FAILED else 0
        after = replace(schedule, failures=failures, next_at=await _next(schedule, now))
        if done.fate is Fate.SKIPPED:
            after = replace(after, skipped=schedule.skipped + 1)
        else:
            after = replace(after, last_at=schedule.next_at, last_run=done.run)
        if done.fate is Fate.UNKNOWN:
            # As it was: it can continue with its next moment once its principal is known again.
            return replace(schedule, status=ScheduleStatus.PAUSED)
        if not after.next_at:
            return replace(after, status=ScheduleStatus.DONE)
        return replace(after, status=ScheduleStatus.PAUSED) if failures >= MOST_FAILURES else after

    async def _goes_on(self, schedule: Schedule) -> bool:
        """Say whether the last run still runs, as the schedule's label may know.

        A run that rose above it counts until its deadline: its place is not given back before.
        """
        if not schedule.last_run:
            return False
        state = await self._store.sessions.state(schedule.last_run)
        if state is not None and state.visibility.flows_to(schedule.label):
            return not (state.ended_at or (state.progress is not None and state.progress.ended_at))
        now = self._store.tokens.now_ms()
        places = await self._store.runs.slots(schedule.principal)
        return any(place.sid == schedule.last_run and place.live and place.until > now for place in places)

    async def _run_failed(self, schedule: Schedule) -> bool:
        """Say whether the last run failed, as the schedule's label may know."""
        state = await self._store.sessions.state(schedule.last_run) if schedule.last_run else None
        if state is None or state.progress is None or not state.visibility.flows_to(schedule.label):
            return False
        return state.progress.reason in _FAILED

    async def _reminded(self, schedule: Schedule) -> "_Done":
        """Have a reminder sent to its address, else to its creator alone."""
        document, text = self._gate.document, REMINDER.format(text=schedule.text)
        meant = self._meant(schedule)
        places = labelling.private_places(document, schedule.asker, schedule.label, schedule.asked_at)
        for address in dict.fromkeys((*meant, *places)):
            if await self._put(schedule, address, text, f"reminder/{schedule.id}/{schedule.next_at}"):
                return _Done(Fate.SAID, why="" if address in meant else "said to its creator alone")
        return _Done(Fate.FAILED, why="it may be said nowhere" if meant else "its recipient is another by now")

    def _meant(self, schedule: Schedule) -> tuple[Address, ...]:
        """Return the address that a reminder is meant for, nothing if its recipient has changed."""
        if not schedule.deliver_to:
            return (Address.parse(schedule.asked_at),)
        document = self._gate.document
        ceiling = labelling.ceiling(document, schedule.principal, schedule.asker) or PUBLIC
        sender = keeper.ScheduleMaker(
            schedule.principal, schedule.asker, ceiling, schedule.label, schedule.asked_at, by_agent=schedule.by_agent
        )
        try:
            address = recipients.find(document, sender, schedule.deliver_to)
        except recipients.UnknownRecipientError:
            return ()
        return (address,) if recipients.meaning(document, address) == schedule.meant else ()

    async def _tell(self, schedule: Schedule, done: "_Done") -> None:
        """Tell the creator of a schedule that it is over or paused for its failures, in private, if that may be.

        `schedule` is as it is after the moment. If the creator is not known any more, nobody is told.
        """
        if done.fate is Fate.FAILED and schedule.status is ScheduleStatus.DONE:
            text = NOT_DONE.format(id=schedule.id, why=done.told or done.why)
        elif done.fate is not Fate.UNKNOWN and schedule.status is ScheduleStatus.PAUSED:
            text = PAUSED.format(id=schedule.id, failures=schedule.failures)
        else:
            return
        label, key = schedule.label, f"{schedule.status}/{schedule.id}/{schedule.last_at}"
        for address in labelling.private_places(self._gate.document, schedule.asker, label, schedule.asked_at):
            if await self._put(schedule, address, text, key, ours=True):
                return

    async def _put(self, schedule: Schedule, address: Address, text: str, key: str, *, ours: bool = False) -> bool:
        """Put a text into an outbox, once for its key; return whether it may be said. The audit row is written before.

        The outbox is that of the conversation in which the schedule was made. `ours` marks texts of the program itself.
        Raises ArchivedError, DeletedError: that conversation just ended. StoreError.
        """
        document = self._gate.document
        home = replace(Address.parse(schedule.asked_at), recipient="")
        shared = document.chat(home.channel, home.workspace, home.chat) is not None
        owner = principals.of_chat(home) if shared else schedule.principal
        sid = await self._session_ids.of(home, owner)
        standing = DecisionContext.of_caller(
            Caller(
                schedule.asker,
                role(document, schedule.principal, schedule.asker),
                labelling.ceiling(document, schedule.principal, schedule.asker) or PUBLIC,
                Ingress.COMMAND,
            ),
            address,
            await self._gate.readers.prospect(address),
            self._store.tokens.now_ms(),
            sid=sid,
            taint=schedule.label,
        )
        await self._gate.output.read_ahead((text,))
        say = self._gate.output
        spoken = (
            say.reply(standing, standing.destination, text, schedule.label)
            if ours
            else say.speak(standing, standing.destination, text)
        )
        row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(address))
        await self._store.audit.append((row,))
        if spoken.decision.verdict not in MAY_GO_ON:
            return False
        new = NewDelivery(
            key,
            str(address),
            spoken.text,
            schedule.label,
            OutboundKind.NOTICE if ours else OutboundKind.MESSAGE,
            approved=OURS if ours else (),
            asker=schedule.asker,
            meant_for=principals.owner(document, address),
            refs=(ScheduleRef(schedule.id),),
            untrusted=schedule.label.untrusted and not ours,
        )
        begins = Conversation(str(home), owner, await self._agents.pin(owner))
        await self._store.outbox.put(sid, new, begins)
        return True


def _merged(found: Schedule, after: Schedule) -> Schedule | None:
    """Return a schedule that was changed while a moment was carried out, None if another worker did that moment."""
    if (found.last_at, found.skipped) == (after.last_at, after.skipped):
        return None
    return replace(
        found, last_at=after.last_at, last_run=after.last_run, failures=after.failures, skipped=after.skipped
    )


def _is_known(document: Document, schedule: Schedule) -> bool:
    """Say whether the principal and asker of a schedule are known, and may still ask for anything."""
    person = document.principals.get(schedule.asker)
    if person is None or not any(document.principal(account) for account in person.accounts):
        return False
    member = at_least(role(document, schedule.principal, schedule.asker), Role.MEMBER)
    return member and labelling.ceiling(document, schedule.principal, schedule.asker) is not None


def _order(schedule: Schedule) -> RunOrder:
    """Return the order for the run of a schedule at its moment."""
    wish = RunWish(
        schedule.text,
        schedule.run_type,
        schedule.title,
        schedule.slot,
        deliver_to=schedule.deliver_to,
        meant=schedule.meant,
    )
    return RunOrder(
        wish,
        f"schedule/{schedule.id}/{schedule.next_at}",
        schedule.principal,
        schedule.asker,
        schedule.label,
        asked_at=schedule.asked_at,
        authors=schedule.authors,
        schedule=schedule.id,
        due=schedule.next_at,
        by_agent=schedule.by_agent,
    )


async def _next(schedule: Schedule, now: int) -> int:
    """Return the next moment of a schedule, 0 for one that is done; moments that passed meanwhile are left out."""
    if not schedule.cron:
        return 0
    # The table of a zone is read from a file.
    zone = await asyncio.to_thread(calendar.zone, schedule.zone)
    return calendar.next_moment(schedule.cron, zone, max(now, schedule.next_at))
