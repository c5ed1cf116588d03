"""Background sessions: created with their task in one step, within limits, and their slots freed at their end.

A slot is reserved in the principal's part of the store, the session is created in its own. The session's existence
confirms the reservation, and its end frees it. A process that died between two of these steps leaves a slot, which the
next process in need of one examines. Only the gate creates sessions here.

Slots are counted in pools, one for each principal and label of the asking sessions (ADR 0015, law `no_read_up`). A slot
goes back to its pool by the deadline fixed when it was taken. It goes back earlier only by an end or a stop that this
label may know of: a session that has read more keeps its slot until the deadline.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from bot.access.decision_context import DecisionContext
from bot.core.errors import BusyError, NotFoundError, RequestError
from bot.delegation import structured_result
from bot.sessions.background.delegation import (
    LATE,
    MOST_HOPS,
    SESSION,
    BoundedAnswer,
    Caps,
    Charge,
    Child,
    Errand,
    Lineage,
    NewSlot,
    Reservation,
    ResultField,
    Slot,
    tree_root,
)
from bot.sessions.inbox import NewItem
from bot.sessions.messages import Origin, OriginKind, SessionMessage, named
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.store import Store
from channels.messages import Address
from policy.labels import Integrity, Label

_RUN: Final = 16


class HopsError(RequestError):
    """Sessions have sent one another too much without a person."""

    code = "hops"

    def __init__(self) -> None:
        super().__init__(f"this came through {MOST_HOPS} sessions already, so it goes no further without a person")


class DepthError(RequestError):
    """A background session at the deepest level may not spawn."""

    code = "depth"

    def __init__(self) -> None:
        super().__init__("a background session at this depth spawns no other")


class Spawner:
    """Creates background sessions.

    Args:
        store: The store.
        session_id: Returns the id of the session at an address.
        caps: The limits on live sessions and depth.
        minutes: The longest time a session may take.
        endorsed_bits: How much bounded answers may endorse in a conversation and below it since a person's last
            message, in bits.
    """

    def __init__(
        self,
        store: Store,
        session_id: Callable[[Address], Awaitable[str]],
        *,
        caps: Caps,
        minutes: int,
        endorsed_bits: int,
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._caps = caps
        self._minutes = minutes
        self._endorsed_bits = endorsed_bits

    async def mint_child(self, standing: DecisionContext, key: str, errand: Errand) -> Child:
        """Create a background session for the session of `standing`, with its task labelled at that session's taint.

        Args:
            standing: The parent.
            key: The call's idempotency key: the same again is the same child.
            errand: The task.

        Raises:
            NotFoundError: The parent is gone or was reset.
            BusyError: The pool has as many live sessions as it may.
            DepthError: The parent is at the deepest level.
            HopsError: The parent's message came through too many sessions.
        """
        parent = await self._store.sessions.state(standing.sid)
        if parent is None or parent.generation != standing.generation or parent.ended_at:
            raise NotFoundError
        if _depth(parent) > self._caps.depth:
            raise DepthError
        hops = next_hop(parent, standing.turn)
        run = _run(key)
        home = Address(SESSION, standing.sid, standing.principal, run)
        sid = await self._session_id(home)
        pool = standing.taint.join(standing.visibility)
        life = min(errand.minutes or self._minutes, self._minutes) * 60_000
        latest = 0 if parent.lineage is None else parent.lineage.deadline
        reserved = await self._reserve(standing.principal, NewSlot(run, sid, standing.sid, pool, life, latest))
        lineage = await self._charged(standing, _lineage(standing, parent, errand, run=run, deadline=reserved.deadline))
        task = f"{errand.task}\n\n{structured_result.instruction(errand.returns)}" if errand.returns else errand.task
        await self._store.sessions.accept(
            NewItem(
                sid=sid,
                dedupe=f"spawn/{key}",
                sender=standing.asker,
                label=standing.taint,
                body=SessionMessage(task, origin=_origin(standing), hops=hops, authors=named(standing.others)),
                home=str(home),
                principal=standing.principal,
                creation=standing.taint,
                lineage=lineage,
                reserved=reserved.until,
                refs=errand.refs,
                agent=parent.agent,
                memory=parent.memory,
            )
        )
        return Child(run, sid, lineage.beyond)

    async def _charged(self, standing: DecisionContext, lineage: Lineage) -> Lineage:
        """Return a lineage with whether its answer is endorsed: the information it may carry is charged.

        This is decided here, before anything is read, so it reveals nothing of the answer. A wish that UNTRUSTED data
        may have caused endorses nothing.
        """
        if not lineage.returns or standing.taint.integrity is Integrity.UNTRUSTED:
            return lineage
        charge = Charge(
            sid=lineage.root,
            generation=lineage.root_generation,
            run=lineage.run,
            label=standing.taint.join(standing.visibility),
            millibits=structured_result.millibits(lineage.returns),
            until=lineage.deadline + LATE,
            most=self._endorsed_bits * 1000,
        )
        renewed = await self._renewed(standing, (lineage.root, lineage.root_generation))
        endorsed = renewed and await self._store.delegation.endorse(charge)
        return replace(lineage, endorsed=endorsed, beyond=not endorsed)

    async def endorse(
        self, standing: DecisionContext, key: str, fields: tuple[ResultField, ...], seconds: int
    ) -> BoundedAnswer:
        """Charge an answer of fields that a session gets within a call, where its tree began.

        Args:
            standing: The session.
            key: The call's idempotency key: the same again is charged once.
            fields: The fields.
            seconds: The time within which the answer comes.
        """
        state = await self._store.sessions.state(standing.sid) if standing.claim is None else standing.claim.state
        run, millibits = _run(key), structured_result.millibits(fields)
        if standing.taint.integrity is Integrity.UNTRUSTED:
            return BoundedAnswer(run, millibits, endorsed=False, beyond=False)
        root = tree_root(standing.sid, standing.generation, None if state is None else state.lineage)
        charge = Charge(
            sid=root[0],
            generation=root[1],
            run=run,
            label=standing.taint.join(standing.visibility),
            millibits=millibits,
            until=standing.now + seconds * 1000 + LATE,
            most=self._endorsed_bits * 1000,
        )
        endorsed = await self._renewed(standing, root) and await self._store.delegation.endorse(charge)
        return BoundedAnswer(run, millibits, endorsed=endorsed, beyond=not endorsed)

    async def charge(self, standing: DecisionContext, run: str, millibits: int) -> bool:
        """Charge the bits that a skeleton of a result may carry where the session's tree began; say whether they may.

        It is read at once, at its place among the session's results. So a person's next message forgets the charge,
        unless the session has read nothing since that may tell of it: then it is charged again before.
        """
        if standing.claim is None:
            return False
        root = tree_root(standing.sid, standing.generation, standing.claim.state.lineage)
        return await self._renewed(standing, root) and await self._at_once(standing, root, run, millibits)

    async def _renewed(self, standing: DecisionContext, root: tuple[str, int]) -> bool:
        """Charge again the answers and entries that decided on calls and are not heard yet; say whether all fit.

        The next result tells of all of them. A person's message may have forgotten their charges since.
        """
        unheard = standing.depended
        return all([await self._at_once(standing, root, one.run, one.millibits) for one in unheard])

    async def _at_once(self, standing: DecisionContext, root: tuple[str, int], run: str, millibits: int) -> bool:
        charge = Charge(
            sid=root[0],
            generation=root[1],
            run=run,
            label=standing.taint.join(standing.visibility).secrecy,
            millibits=millibits,
            until=standing.now,
            most=self._endorsed_bits * 1000,
            at_once=True,
        )
        return await self._store.delegation.endorse(charge)

    async def free(self, principal: str) -> None:
        """Free the slots of sessions that have ended as their pools may know, or were not created in time."""
        live = [slot for slot in await self._store.delegation.slots(principal) if slot.live]
        await self._store.delegation.free(principal, tuple([slot for slot in live if await self._given_back(slot)]))

    async def below(self, principal: str, sid: str) -> tuple[str, ...]:
        """Return the descendants of a session that have not ended and reported.

        A descendant that waits for its children has ended and comes back when they report; it holds no slot.
        """
        found = _descending(await self._store.delegation.slots(principal), sid)
        return tuple([slot.sid for slot in found if not await self._over(slot)])

    async def working(self, principal: str, sid: str) -> bool:
        """Say whether any descendant of a session works by itself; those that ask people or are paused do not count."""
        states = [await self._store.sessions.state(child) for child in await self.below(principal, sid)]
        return any(state is None or not (state.asks or state.rests) for state in states)

    async def stop(self, principal: str, sid: str, typed: Label, *, interrupt: Callable[[str], None]) -> None:
        """Stop all descendants of a session, regardless of their taint; `interrupt` stops a turn in this process.

        `typed` is the label of the command. The slots of pools that may know of it are free at once, also the session's
        own: nothing that these sessions have read since, and no way they end, is revealed by that.
        """
        stopped = set[str]()
        while left := [child for child in await self.below(principal, sid) if child not in stopped]:
            for child in left:
                await self._store.sessions.stop(child, actor=principal)
                interrupt(child)
            stopped.update(left)
        slots = await self._store.delegation.slots(principal)
        theirs = [slot for slot in slots if slot.sid == sid] + _descending(slots, sid)
        freed = tuple(slot for slot in theirs if slot.live and typed.flows_to(slot.pool))
        await self._store.delegation.free(principal, freed)

    async def _reserve(self, principal: str, new: NewSlot) -> Reservation:
        """Reserve a slot; if there is none, first free the slots of sessions that have ended."""
        try:
            return await self._store.delegation.reserve(principal, new, self._caps)
        except BusyError:
            await self.free(principal)
            return await self._store.delegation.reserve(principal, new, self._caps)

    async def _given_back(self, slot: Slot) -> bool:
        """Say whether a slot can be freed: due, not used in time, or of a session that ended as its pool may know.

        The deletion of a session may be above its pool. `stop` frees the slots that may be known of there.
        """
        if slot.due:
            return True
        state = await self._store.sessions.state(slot.sid)
        if state is None:
            return slot.lapsed and await self._store.lifecycle.holder(slot.sid) is None
        return state.ended_at > 0 and state.visibility.flows_to(slot.pool)

    async def _over(self, slot: Slot) -> bool:
        """Say whether a slot's session was deleted, has reported so that it is archived, or was not created in time."""
        state = await self._store.sessions.state(slot.sid)
        if state is None:
            return slot.lapsed or await self._store.lifecycle.holder(slot.sid) is not None
        return state.ended_at > 0 and state.status is Status.ARCHIVED


def _run(key: str) -> str:
    """Return the id of a call's run or charge: the same for the same call."""
    return hashlib.sha256(key.encode()).hexdigest()[:_RUN]


def _descending(slots: tuple[Slot, ...], sid: str) -> list[Slot]:
    """Return the slots of all descendants of a session."""
    found, above = list[Slot](), {sid}
    while more := [slot for slot in slots if slot.parent in above and slot not in found]:
        found += more
        above = {slot.sid for slot in more}
    return found


def _origin(standing: DecisionContext) -> Origin:
    """Return the origin of a task, with the facts it depends on.

    They are the web addresses that its asker typed, and the bounded answers that the asking session has heard.
    """
    return Origin(OriginKind.TASK, standing.sid, typed=standing.typed, endorsed=standing.passed_on)


def _lineage(standing: DecisionContext, parent: SessionState, errand: Errand, *, run: str, deadline: int) -> Lineage:
    """Return the lineage of a background session of a parent, before it is known whether its answer is endorsed."""
    above = parent.lineage
    root, root_generation = tree_root(standing.sid, standing.generation, above)
    return Lineage(
        parent=standing.sid,
        generation=standing.generation,
        run=run,
        depth=_depth(parent),
        deadline=deadline,
        title=errand.title,
        deliver_to=errand.deliver_to,
        meant=errand.meant,
        returns=errand.returns,
        asked_at=str(standing.home) if above is None else above.asked_at,
        known=parent.taint,
        root=root,
        root_generation=root_generation,
    )


def _depth(parent: SessionState) -> int:
    return 1 if parent.lineage is None else parent.lineage.depth + 1


def next_hop(state: SessionState, turn: str) -> int:
    """Return the number of sessions that a message of a session will have come through if it is sent now.

    `turn` is empty for words that a person types into a command, which no session made them type.

    Raises HopsError: there are too many.
    """
    hops = 1 + (state.turn.hops if state.turn is not None and turn else 0)
    if hops > MOST_HOPS:
        raise HopsError
    return hops
