"""Starting runs: each made with its goal in one step, within its principal's places, and its timer set before.

A place is reserved at the principal's key in the store, the run's session is created at its own. The place is given
back by an end that its pool may know of, or at the deadline that was fixed when it was taken (law `no_read_up`). The
gate alone mints.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from bot.core.errors import BusyError, NotFoundError
from bot.delegation.spawn import next_hop
from bot.sessions.background.delegation import LATE
from bot.sessions.background.runs import RESERVATION, Charter, RunOrder, RunSlot, StartedRun, run_home
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.inbox import NewItem
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.limits import RunLimits
from bot.sessions.messages import Origin, OriginKind, SessionMessage
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from channels.messages import Address

HOUR: Final = 3_600_000
"""Milliseconds."""

_NOT_MADE: Final = 60_000
"""Milliseconds after which a place without a session is free: its process is gone."""

_RUN: Final = 16


class RunStarter:
    """Makes runs.

    `session_id` names the session of a home, `pin` returns the pin of a principal's new session. `now` is the store's
    clock, in milliseconds. `limits` bound each run.
    """

    def __init__(
        self,
        store: Store,
        session_id: Callable[[Address], Awaitable[str]],
        *,
        pin: Callable[[str], Awaitable[str]],
        now: Callable[[], int],
        limits: RunLimits,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._pin = pin
        self._now = now
        self._limits = limits

    async def mint_run(self, order: RunOrder) -> StartedRun:
        """Create a run with its goal, labelled as it is ordered; the same key is the same run.

        Raises:
            BusyError: as many go on in its pool as may.
            NotFoundError: the session that wants it is gone or was reset.
            HopsError: too many sessions led here without a person.
        """
        run = f"r_{hashlib.sha256(order.key.encode()).hexdigest()[:_RUN]}"
        home = run_home(order.principal, run)
        sid = await self._session_id(home)
        agent, hops, memory = await self._wanted_by(order)
        place = await self._placed(order, run, sid)
        deadline = place.until - LATE
        wish = order.wish
        # Before it is there: so none is without the timer that ends it.
        await self._store.schedules.set_timer(Timer(TimerKind.DEADLINE, sid, deadline))
        await self._store.sessions.accept(
            NewItem(
                sid=sid,
                dedupe=f"run/{order.key}",
                sender=order.asker,
                label=order.label,
                body=SessionMessage(wish.goal, origin=_origin(order), hops=hops, authors=order.authors),
                home=str(home),
                principal=order.principal,
                creation=order.label,
                refs=wish.refs,
                agent=agent,
                memory=memory,
                charter=_charter(order, run, deadline=deadline, hops=hops),
                reserved=place.since + RESERVATION,
            )
        )
        return StartedRun(run, sid, deadline)

    async def _wanted_by(self, order: RunOrder) -> tuple[str, int, MemoryUse | None]:
        """Return the pin of a run's session, the number of sessions that led to it, and their chosen use of memories.

        Raises NotFoundError, HopsError.
        """
        if not order.session:
            return await self._pin(order.principal), 0, None
        wanting = await self._store.sessions.state(order.session)
        if wanting is None or wanting.ended_at:
            raise NotFoundError
        return wanting.agent, next_hop(wanting, order.turn), wanting.memory

    async def _placed(self, order: RunOrder, run: str, sid: str) -> RunSlot:
        """Take a place; if there is none, look whether runs that were never made or have ended hold some."""
        hours = min(order.wish.hours or self._limits.hours, self._limits.hours)
        now = self._now()
        pool = order.label.secrecy
        slot = RunSlot(run, sid, pool, "", since=now, until=now + hours * HOUR + LATE, fence=0, live=True)
        try:
            return await self._store.runs.reserve(order.principal, slot, self._limits.live)
        except BusyError:
            await self.free(order.principal, now)
            return await self._store.runs.reserve(order.principal, slot, self._limits.live)

    async def free(self, principal: str, now: int) -> None:
        """Give back the places of runs that have ended as their pools may know, or were never made."""
        for place in await self._store.runs.slots(principal):
            if place.live and await self._given_back(place, now):
                await self._store.runs.free(principal, place.run)

    async def _given_back(self, place: RunSlot, now: int) -> bool:
        """Say whether a place is to be free. That a run was deleted may be more than its pool may know."""
        if place.until <= now:
            return True
        state = await self._store.sessions.state(place.sid)
        if state is None:
            return place.since + _NOT_MADE <= now and await self._store.lifecycle.holder(place.sid) is None
        return has_ended(place, state)


def has_ended(place: RunSlot, state: SessionState) -> bool:
    """Say whether the run of a place has ended, as its pool may know: then the place is free."""
    ended = state.progress is not None and state.progress.ended_at > 0
    return ended and state.visibility.flows_to(place.pool)


def _charter(order: RunOrder, run: str, *, deadline: int, hops: int) -> Charter:
    wish = order.wish
    return Charter(
        run=run,
        type=wish.type,
        deadline=deadline,
        slot=wish.slot or run,
        asker=order.asker,
        title=wish.title,
        asked_at=order.asked_at,
        deliver_to=wish.deliver_to,
        meant=wish.meant,
        schedule=order.schedule,
        due=order.due,
        hops=hops,
    )


def _origin(order: RunOrder) -> Origin | None:
    """Return the origin of a goal: a person's words, or a session's task with the sources that it depends on."""
    if not (order.session or order.by_agent):
        return None
    return Origin(OriginKind.TASK, order.session, typed=order.typed, endorsed=order.endorsed)
