"""The open turn: one claimed piece of work, as the code that runs it holds it.

It keeps the log cursor, the taint in force and the events not yet written, and is the only code that writes to a
claimed session. Deciding and writing go together under `lock`, so that two tool calls running at once cannot race the
taint (law `taint_is_the_fold`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, cast

import anyio
import anyio.lowlevel

from bot.access import principals
from bot.access.decision_context import Call, DecisionContext
from bot.core.errors import GrantEndedError, LeaseLostError, StoreGoneError, WithdrawnError
from bot.core.ids import Ids
from bot.core.json_values import JsonObject
from bot.history.folds import Folds
from bot.history.origins import Reading, referring, said
from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION, Lineage
from bot.sessions.background.runs import Background
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import InboxItem
from bot.sessions.limits import SessionLimits
from bot.sessions.log.event_types import AgentMessage, ToolResult, TurnCompleted
from bot.sessions.log.events import NewEvent
from bot.sessions.models import Change, Claim, LastTurn, Turn, Write, Written, run_facts
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.transcript import Tail
from bot.sessions.usage import Usage
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC


class TurnSender(Protocol):
    """Sends the deliveries that this process commits: the outbox."""

    @property
    def sender(self) -> str:
        """This process's name in the store."""
        ...

    def serves(self, address: str) -> bool:
        """Say whether an address belongs to a channel of this process."""
        ...

    async def collect(self, sid: str) -> None:
        """Send the waiting deliveries of a session's outbox."""
        ...

    def unsaid(self, deliveries: tuple[Delivery, ...]) -> None:
        """Note that deliveries, if this process holds them, were certainly not sent."""
        ...


class StopRequestedError(Exception):
    """A person asked the turn to stop."""


class DeadlinePassedError(Exception):
    """A turn, or a background session, did not end in its time."""


class OpenTurn:
    """A turn in progress.

    `lock` must be held to decide and write. `claim` is the claim on the session, and `approvals` are its approvals.
    `usage` is the use of models since the claim. Further attributes:

    - `standing`: the session as of the last write. `record`: the turn's value in the store.
    - `open_calls`: the tool calls by their ids that have no result in the log yet. `begun_calls`: the ids of those that
      were allowed to run. `inquiries`: the ids of those in this step that ask the asker something.
    - `admitted`: the events of the messages admitted since the claim, and of the messages observed before them.
    - `waiting`: how many messages wait. `mode`: how they are taken. Both as of the last write.
    - `left`: the position of a message that may not enter this turn.
    - `shows`: whether its address may see that it is at work.
    - `folds`: the folds of its generation's events as of the last write.
    - `limits`: the limits of the session.
    - `afterwards`: work that its ending leaves until all is sent.
    """

    def __init__(  # noqa: PLR0913 - made by the worker from a claim and from what it shares
        self,
        store: SessionStore,
        ids: Ids,
        claim: Claim,
        *,
        record: Turn,
        standing: DecisionContext,
        sender: TurnSender,
        folds: Folds,
        limits: SessionLimits,
    ) -> None:
        self.lock = asyncio.Lock()
        self.claim = claim
        self.record = record
        self.standing = standing
        self.approvals = claim.approvals
        self.usage = Usage()
        self.open_calls: dict[str, Call] = {}
        self.begun_calls: Collection[str] = ()
        self.inquiries = set[str]()
        self.admitted: list[NewEvent] = []
        self.waiting = claim.state.waiting_items
        self.mode = claim.state.mode
        self.left = 0
        self.folds = folds
        self._sender = sender
        self._store = store
        self._ids = ids
        self._cursor = claim.state.seq
        self._noted: list[NewEvent] = []
        self._reading = Reading(response=folds.newest.response)
        self._context = claim.state.context_seq
        self.limits = limits
        self.shows = bool(self.asked) or not self.above_home
        self._due = claim.now + limits.turn_seconds * 1000 - record.active
        if self.background is not None:
            self._due = min(self._due, self.background.deadline)
        self._seen = (claim.now, _here())
        self._scope: anyio.CancelScope | None = None
        self._interruption: Exception | None = None
        self.afterwards: Callable[[], Awaitable[None]] | None = None

    @property
    def lineage(self) -> Lineage | None:
        """The lineage of a background session, None for any other session."""
        return self.claim.state.lineage

    @property
    def background(self) -> Background | None:
        """The lineage of a task or the charter of a run, None for a conversation."""
        return self.claim.state.background

    @property
    def active(self) -> int:
        """For how many milliseconds it was worked by now; waiting for people does not count."""
        return self.record.active + self.now - self.claim.now

    @property
    def took(self) -> int:
        """How many milliseconds ago it began, on the store's clock."""
        return self.now - self.record.started_at

    @property
    def late(self) -> bool:
        """Whether its time, or that of its background session or run, was over when it was claimed."""
        return self.claim.now >= self._due

    @property
    def outlived(self) -> bool:
        """Whether the deadline of its background session or run comes before its own."""
        return self.background is not None and self._due >= self.background.deadline

    @property
    def alone(self) -> int | None:
        """How many turns beyond the limit ended before this one without a person's message, None within the limit.

        Also None if a person's message is part of this turn, and for a run, which has a limit of its own.
        """
        most, state = self.limits.turns, self.claim.state
        if most is None or state.charter is not None or state.turns_alone < most or self.asked:
            return None
        return state.turns_alone - most

    @property
    def ends_in_order(self) -> bool:
        """Whether it is being ended while it has its lease, so that its effects outside may finish."""
        if self._interruption is None:
            return self._scope is not None and self._scope.cancel_called
        return not isinstance(self._interruption, LeaseLostError)

    @property
    def now(self) -> int:
        """The store's time, in milliseconds: that of the last write, plus the time that passed here since."""
        then, here = self._seen
        return then + round((_here() - here) * 1000)

    def _deadline(self) -> float:
        """Return when its time is over, in seconds on the loop's clock."""
        return _here() + max(self._due - self.now, 0) / 1000

    @property
    def begun(self) -> bool:
        """Whether an event of this turn is in the log."""
        return self.folds.newest.id == self.record.id

    @property
    def asked(self) -> tuple[int, ...]:
        """The positions of the messages of this turn that a person wrote, and not another session."""
        waiting = next((item.body for item in self.claim.items if item.position == self.record.position), None)
        mine = self.folds.newest.foreign if self.begun else None
        foreign = mine is not False if waiting is None else waiting.origin is not None
        return self.record.joined if foreign else (self.record.position, *self.record.joined)

    @property
    def above_home(self) -> bool:
        """Whether a conversation has read more than the readers of its own address may know."""
        clearance = self.standing.destination.clearance or PUBLIC
        return self.background is None and not self.standing.taint.flows_to(clearance)

    async def inbox(self) -> tuple[InboxItem, ...]:
        """Return the messages that wait now, oldest first."""
        return await self._store.waiting(self.claim.sid) if self.waiting else ()

    async def log(self) -> Tail:
        """Return the events of the context as of the claim, with those that this turn wrote."""
        state = self.claim.state
        first = state.context_seq
        found = await self._store.events(self.claim.sid, after=first - 1, limit=max(self._cursor - first + 1, 1))
        before = [seq for seq in self.folds.newest.said if seq < first] if self.begun else []
        early = await self._store.events_at(self.claim.sid, before)
        return Tail(found, first - state.generation_seq, early)

    def carried(self) -> JsonObject:
        """Return the fold of all events before the next one to be written, which that event carries."""
        return self.folds.plus_new(enumerate(self._noted, self._cursor + 1)).written()

    async def look(self) -> None:
        """Read the facts of its run, before a model is asked and where the turn ends; nothing for any other session.

        The model's answer is then handled by these facts, regardless of changes by its own calls meanwhile.
        """
        if self.claim.state.charter is None:
            return
        state = await self._store.state(self.claim.sid)
        if state is not None:
            self.standing = replace(self.standing, run=run_facts(state))

    def asks(self) -> None:
        """Note that a model is asked with the context as it is now: its answer comes from that."""
        self._reading = replace(self._reading, first=self._context, last=self._cursor)

    def without(self, grant: str) -> None:
        """Note that a grant of the session covers no call any more."""
        grants = tuple(one for one in self.standing.grants if one.id != grant)
        self.standing = replace(self.standing, grants=grants)

    def note(self, event: NewEvent) -> None:
        """Keep an event to be written first in the next write: it needs no round trip of its own."""
        self._noted.append(event)

    async def audit(self, row: AuditRow) -> None:
        """Write an audit row and nothing else. Raises as `write`."""
        async with self.lock:
            await self.write(Change(audit=(row,)))

    async def write(self, change: Change) -> tuple[Delivery, ...]:
        """Write in the middle of the turn; the caller holds `lock` since it decided.

        A person's stop interrupts the turn after the write: the ending then knows the written data, and the claimed
        deliveries go back to the outbox.

        Returns:
            The deliveries, already claimed by this process; none if another process has to send some of them, for then
            all wait in the outbox.

        Raises:
            LeaseLostError: Another worker has the session now.
            WithdrawnError: The input to take does not wait any more; nothing was written, and the turn may continue.
        """
        return await self._written(self._write(change), final=False)

    async def end(self, change: Change) -> tuple[Delivery, ...]:
        """Write for the last time and give the lease back; as `write` otherwise, but a stop comes too late."""
        return await self._written(self._write(change, release=True), final=True)

    def interrupt(self, reason: Exception) -> None:
        """Stop the thinking from outside: the lease was lost, or a person asked to stop; the former counts for more."""
        lost = isinstance(reason, LeaseLostError) and not isinstance(self._interruption, LeaseLostError)
        if self._interruption is None or lost:
            self._interruption = reason
            if self._scope is not None:
                self._scope.cancel()

    @contextmanager
    def interruptible(self) -> Generator[None]:
        """Run a block that `interrupt` can end.

        Raises:
            Exception: The reason given to `interrupt`, at the end of the block.
            DeadlinePassedError: The deadline of the turn, or of its background session, ended it.
        """
        scope = anyio.CancelScope(deadline=self._deadline())
        try:
            with scope:
                self._scope = scope
                if self._interruption is not None:
                    scope.cancel()
                yield
            if scope.cancelled_caught:
                self.interrupt(DeadlinePassedError())
        except Exception as error:
            if scope.cancel_called:
                self.interrupt(DeadlinePassedError())
            # Errors of the block's tasks after an interruption only echo its reason.
            if self._interruption is None:
                raise
            raise self._interruption from error
        finally:
            self._scope = None
        if self._interruption is not None:
            raise self._interruption

    def _write(self, change: Change, *, release: bool = False) -> Write:
        asked = {approval.id: approval.call for approval in change.ask}
        events = referring((*self._noted, *change.events), self._cursor, self._reading, asked)
        events, end = _ended(events, self._cursor, change.end)
        deliver = (said(new, events, self._cursor) for new in change.deliver)
        return Write(
            op=self._ids.op(),
            cursor=self._cursor,
            events=events,
            audit=change.audit,
            take=change.take,
            also=change.also,
            settle=change.settle,
            ask=change.ask,
            use=change.use,
            grant=change.grant,
            ended=change.ended,
            turn=change.turn,
            end=end,
            status=change.status,
            deliver=tuple(self._silent(self._asked_for(new)) for new in deliver),
            release=release,
            usage=change.usage,
            context=change.context,
            run=change.run,
            acknowledge=change.acknowledge,
        )

    def _silent(self, new: NewDelivery) -> NewDelivery:
        """Raise the label of a message to a background session's parent to everything for which it rose above that.

        It may have read none of it: whether a rule kept the data out is not for its parent either.
        """
        state = self.claim.state
        if not state.risen or new.address != state.home:
            return new
        return replace(new, label=new.label.join(state.visibility))

    def _asked_for(self, new: NewDelivery) -> NewDelivery:
        """Note the person in a delivery for one person alone, and the asker in an answer or for another session.

        The asker bounds the rights of the message in the other session. It also carries its authors.
        """
        standing, address = self.standing, Address.parse(new.address)
        meant = principals.meant_for(standing.principal, standing.asker, standing.home, address)
        new = replace(new, meant_for=meant or new.meant_for)
        if address.channel == SESSION:
            new = replace(new, authors=tuple(sorted(standing.others)), endorsed=standing.passed_on)
        if standing.asker == standing.principal:
            return new
        if new.kind != OutboundKind.ANSWER and address.channel != SESSION:
            return new
        return replace(new, asker=standing.asker)

    async def _written(self, write: Write, *, final: bool) -> tuple[Delivery, ...]:
        ours = all(self._sender.serves(delivery.address) for delivery in write.deliver)
        try:
            written = await self._shielded(write, self._sender.sender if ours else "", final=final)
        except WithdrawnError:
            raise
        except GrantEndedError:
            if write.grant is not None:
                self.without(write.grant.grant)
            raise
        except LeaseLostError as error:
            self.interrupt(error)
            raise
        except StoreGoneError:
            # The write may have succeeded, and this process then holds deliveries that it will not send.
            if ours:
                self._sender.unsaid(tuple(self._claimed(new, self.standing.now) for new in write.deliver))
            raise
        self._learned(write, written, final=final)
        mine = tuple(self._claimed(new, written.now) for new in write.deliver if ours and new.key not in written.behind)
        try:
            if written.risen:
                # Before the data that raised it is read: the time of the notice then depends on nothing in that data.
                await self._sender.collect(self.claim.sid)
            if not final:
                # A stop takes effect here, before the decided step can begin.
                await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            self._sender.unsaid(mine)
            raise
        return mine

    def _learned(self, write: Write, written: Written, *, final: bool) -> None:
        """Note the written data and the store's answer, before a stop is heeded: the ending continues from these."""
        self._noted.clear()
        self._reading = self._reading.after(write.events, self._cursor)
        self._context = self._context if write.context is None else write.context
        self._cursor, self.waiting, self.mode = written.seq, written.waiting, written.mode
        self._seen = (written.now, _here())
        if self._scope is not None:
            # The store's clock counts, regardless of this process's own.
            self._scope.deadline = self._deadline()
        self.folds = self.folds.plus_new(enumerate(write.events, written.seq - len(write.events) + 1))
        grants = _granted(self.standing.grants, write)
        self.standing = self.folds.of(replace(self.standing, taint=written.taint, now=written.now, grants=grants))
        for event in write.events:
            if isinstance(event.body, ToolResult):
                self.open_calls.pop(event.body.call, None)
        if write.turn is not None and not final:
            self.record = write.turn
        if written.stop and not final:
            self.interrupt(StopRequestedError())

    async def _shielded(self, write: Write, sender: str, *, final: bool) -> Written:
        """Write without a break: if a stop interrupted it, the store would know more than this turn."""
        method = self._store.commit if final else self._store.record
        written: Written | None = None
        with anyio.CancelScope(shield=True):
            written = await method(self.claim, write, sender=sender)
        # Nobody cancels the shield itself, so its block never ends early.
        return cast("Written", written)

    def _claimed(self, new: NewDelivery, now: int) -> Delivery:
        return Delivery(
            sid=self.claim.sid,
            key=new.key,
            address=new.address,
            text=new.text,
            label=new.label,
            kind=new.kind,
            turn=new.turn,
            state=DeliveryState.SENDING,
            created_at=now,
            attempt=1,
            generation=self.standing.generation,
            approved=new.approved,
            hops=new.hops,
            release=new.release,
            asker=new.asker,
            replaces=new.replaces,
            meant_for=new.meant_for,
            authors=new.authors,
            endorsed=new.endorsed,
            refs=new.refs,
            untrusted=new.untrusted,
        )


def _here() -> float:
    """Return the time on the loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


def _granted(grants: tuple[Approval, ...], write: Write) -> tuple[Approval, ...]:
    """Return the grants of a session after a write that may have used or ended some."""
    over, used = {one.grant for one in write.ended}, write.grant
    return tuple(
        replace(one, grant=one.grant.used_by(used.call))
        if used is not None and one.grant is not None and one.id == used.grant
        else one
        for one in grants
        if one.id not in over
    )


def _ended(
    events: tuple[NewEvent, ...], cursor: int, end: LastTurn | None
) -> tuple[tuple[NewEvent, ...], LastTurn | None]:
    """Note in the end of a turn where its answer stands; `cursor` is the seq of the event before these."""
    if end is None:
        return events, None
    places = {type(event.body): seq for seq, event in enumerate(events, cursor + 1)}
    result = places.get(AgentMessage, 0)
    told = tuple(
        replace(event, body=replace(event.body, back=seq - result if result else 0))
        if isinstance(event.body, TurnCompleted)
        else event
        for seq, event in enumerate(events, cursor + 1)
    )
    return told, replace(end, seq=places[TurnCompleted], result_seq=result)
