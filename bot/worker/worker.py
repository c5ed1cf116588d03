"""The worker: takes a session that has work, runs one turn, gives it back.

`_turn` reads as steps 4 to 7 of the way of one message. Everything a turn needs is in the store, so any
number of workers may run, and a turn that a crashed one left goes on in another.
"""

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from bot.access import labelling
from bot.access.authorize import role
from bot.access.decision_context import DecisionContext
from bot.admission.admission import Admission
from bot.agent.loop import Agent, Ending, GivenUp
from bot.agent.tails import Past, Tails
from bot.core.errors import ElsewhereError, LeaseLostError, StoreError, StoreGoneError, UnsettledError
from bot.core.ids import Ids
from bot.core.logs import bound
from bot.delegation.spawn import Spawner
from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.gate.gate import Gate
from bot.gate.results import NOT_KNOWN
from bot.history import event_log
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import Delivery
from bot.sessions.inbox import InboxItem
from bot.sessions.models import Change, Claim, Doing, Status, Turn, YieldReason
from bot.sessions.ports import SessionStore, Wake
from bot.turn import DeadlinePassedError, OpenTurn, StopRequestedError
from bot.worker.finish import TurnFinisher
from bot.worker.lease import LeaseKeeper
from channels.messages import Address, Signal
from policy.labels import PUBLIC, Label

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


STOPPED: Final = "stopped"
TOO_LATE: Final = "it was not done in time and was ended"
ATTEMPTS: Final = 3
"""How often a turn is begun: one that takes its worker down every time would go on forever."""

_LOGGER: Final = logging.getLogger(__name__)

_WAIT: Final = 1.0
"""Seconds a worker waits for a hint before it looks again."""

_SOON: Final = 0.5
"""Seconds that a turn takes before it is shown that it goes on: most are over by then, and a signal is a request."""

_MOMENT: Final = 0.2
"""Seconds within which a worker takes a hint, and how long a session of a crowded pool waits for a turn to end."""


class Worker:
    """Runs turns, up to `parallel` sessions at once; `interval` is seconds between two sweeps.

    No pool, a principal's sessions of one level, takes the last of them: it runs as many at most as are left for all
    others (ADR 0015). So a pool that waits delays itself.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: SessionStore,
        wake: Wake,
        quarantine: Quarantine,
        gate: Gate,
        admission: Admission,
        agent: Agent,
        endings: TurnFinisher,
        outbox: Outbox,
        copies: QuestionUpdates,
        policy: PolicyReloader,
        keeper: LeaseKeeper,
        ids: Ids,
        spawner: Spawner,
        interval: float,
        parallel: int = 32,
        soon: float = _SOON,
    ) -> None:
        self._store = store
        self._wake = wake
        self._quarantine = quarantine
        self._gate = gate
        self._admission = admission
        self._agent = agent
        self._endings = endings
        self._outbox = outbox
        self._copies = copies
        self._policy = policy
        self._keeper = keeper
        self._ids = ids
        self._spawner = spawner
        self._interval = interval
        self._parallel = parallel
        self._soon = soon
        self._tails = Tails(store)
        self._slots = asyncio.Semaphore(parallel)
        self._pools = dict[str, tuple[str, Label]]()
        self._crowded = deque[asyncio.Event]()
        self._busy = set[str]()
        self._again = set[str]()
        self._turns: dict[str, OpenTurn] = {}
        self._lit = set[OpenTurn]()
        self._left: dict[str, float] = {}

    async def serve(self) -> None:
        """Run until cancelled: sessions marked ready, and whatever the sweep finds.

        What is being said then is said to its end: the tasks are of a group whose shields hold when it is cancelled.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sweep, tasks)
            while True:
                try:
                    await self._start(tasks, await self._ready())
                except StoreError:
                    # It is away, or its disk is full: whatever it is, it may be mended.
                    await asyncio.sleep(_WAIT)

    def interrupt(self, sid: str, only: str = "") -> None:
        """Stop a session's turn now, if this worker runs it; the store knows of the stop already.

        With `only` that turn and no other: the next one may have begun meanwhile.
        """
        turn = self._turns.get(sid)
        if turn is not None and only in {"", turn.record.id}:
            turn.interrupt(StopRequestedError())

    async def _ready(self) -> tuple[str, ...]:
        """Wait for sessions marked ready; while another policy is in force, leave them and all open turns to others."""
        if await self._policy.current():
            ready = await self._wake.ready(wait=_WAIT)
            if await self._policy.current():
                return ready
            await self._wake.again(ready)
        for turn in self._turns.values():
            turn.interrupt(LeaseLostError("another policy is in force, another process goes on with this"))
        await asyncio.sleep(_WAIT)
        await self._policy.current_now()
        return ()

    async def _sweep(self, tasks: "TaskGroup") -> None:
        while True:
            with suppress(StoreError):
                if await self._policy.current():
                    await self._quarantine.refresh()
                    # Before what a question held goes on, as it would stand until that is done.
                    await self._copies.sweep()
                    lost = await self._outbox.catch_up()
                    found = await self._wake.sweep(self._outbox.channels)
                    await self._start(tasks, tuple(dict.fromkeys((*lost, *found, *self._quarantine.due()))))
            for turn in self._lit:
                tasks.start_soon(self._signal, turn, Signal.STILL)
            await asyncio.sleep(self._interval)

    async def _start(self, tasks: "TaskGroup", ready: tuple[str, ...]) -> None:
        for sid in ready:
            if sid in self._busy:
                self._again.add(sid)
                continue
            if self._quarantine.rests(sid):
                # The sweep finds it when its pause is over.
                continue
            await self._slots.acquire()
            self._busy.add(sid)
            tasks.start_soon(self._work, tasks, sid)

    async def _work(self, tasks: "TaskGroup", sid: str) -> None:
        """Run a session's turns until nothing is left of them; a hint that came meanwhile counts."""
        try:
            while True:
                self._again.discard(sid)
                try:
                    with bound(session=sid):
                        await self._look(tasks, sid)
                except UnsettledError as error:
                    # No slot is held meanwhile.
                    tasks.start_soon(self._later, sid, error.seconds)
                except _CrowdedError as error:
                    tasks.start_soon(self._give_back, error.claim)
                except StoreGoneError:
                    # Somebody else goes on with it, or this worker does when the store is back: the sweep finds it.
                    return
                except Exception as error:  # noqa: BLE001 - one session that cannot be worked must not end the others
                    await self._report(sid, error)
                    return
                if sid not in self._again:
                    return
        finally:
            self._busy.discard(sid)
            self._slots.release()

    async def _later(self, sid: str, seconds: float) -> None:
        """Mark a session ready in a moment, for this worker or another; if it never does, the sweep finds it."""
        await asyncio.sleep(seconds)
        with suppress(StoreError):
            await self._wake.again((sid,))

    @contextmanager
    def _counted(self, claim: Claim) -> Generator[None]:
        """Count a turn in its pool. Raises _CrowdedError: the pool has as many here as are left for all others."""
        pool = claim.state.principal, claim.state.visibility.secrecy
        if sum(one == pool for one in self._pools.values()) >= self._parallel - len(self._pools):
            raise _CrowdedError(claim)
        self._pools[claim.sid] = pool
        try:
            yield
        finally:
            del self._pools[claim.sid]
            if self._crowded:
                self._crowded.popleft().set()

    async def _give_back(self, claim: Claim) -> None:
        """Keep a session of a crowded pool until a turn ends, a moment at most; then leave it to whatever worker."""
        over = asyncio.Event()
        self._crowded.append(over)
        with anyio.move_on_after(_MOMENT):
            await over.wait()
        with suppress(ValueError):
            self._crowded.remove(over)
        with suppress(StoreError):
            await self._store.release(claim)

    async def _report(self, sid: str, error: Exception) -> None:
        """Leave a session alone for a while that could not be worked, and tell operators of it."""
        with suppress(StoreError):
            await self._quarantine.put(sid, Doing.WORK, error)

    async def _look(self, tasks: "TaskGroup", sid: str) -> None:
        """Claim a session and run a turn, if there is work for it and the policy here is the one in force."""
        if not await self._policy.current():
            return
        # What is not written down yet would be taken for what a new attempt puts there under the same key.
        await self._outbox.settle_owed(sid)
        try:
            owner = f"{self._store.process}.{self._ids.owner()}"
            most = ATTEMPTS + self._quarantine.tries(sid)
            since = anyio.current_time()
            known = self._tails.known(sid)
            claim = await self._store.claim(sid, owner, known=known, channels=self._outbox.channels, most=most)
        except ElsewhereError:
            await self._outbox.collect(sid)
            await self._leave(sid)
            return
        # The claim read it along, so no turn begins by a policy that was replaced a moment ago.
        current = await self._policy.current()
        if current and claim is None:
            await self._copies.ask_again(sid)
        if current and (claim is None or claim.state.undelivered):
            await self._outbox.collect(sid)
        if claim is None:
            if self._quarantine.tries(sid):
                await self._mended(sid)
            return
        with suppress(LeaseLostError):
            if current:
                # Whatever waits afterwards was marked ready by the commit, so nothing more is asked for here.
                with self._counted(claim):
                    await self._turn(tasks, claim, since)
                await self._quarantine.done(sid, Doing.WORK)
                return
        # Whoever goes on with it need not wait for the lease; if it is his already, this changes nothing.
        await self._store.release(claim)

    async def _mended(self, sid: str) -> None:
        """Let a session out of quarantine in which nothing is left to do."""
        state = await self._store.state(sid)
        if state is None or (state.turn is None and not state.waiting_items and not state.undelivered):
            await self._quarantine.done(sid, Doing.WORK)

    async def _leave(self, sid: str) -> None:
        """Mark a session ready for who serves its channel; if this process is told of it again at once, nobody does."""
        now = anyio.current_time()
        self._left = {one: until for one, until in self._left.items() if until > now}
        if sid not in self._left:
            self._left[sid] = now + _MOMENT
            await self._wake.again((sid,))

    async def _turn(self, tasks: "TaskGroup", claim: Claim, since: float) -> None:
        """Run one turn: steps 4 to 7 of the way of one message (DESIGN section 1).

        `since` is when it was claimed, in seconds on the loop's clock.
        """
        past = await self._tails.past(claim)
        turn, item = await self._open(claim, past)
        with bound(turn=turn.record.id, request=turn.record.dedupe):
            async with self._shown(tasks, turn) as over:
                self._turns[claim.sid] = turn
                try:
                    with self._keeper.hold(turn, since):
                        ending = await self._ending(turn, item, past)
                        deliveries = await self._end(turn, ending)
                finally:
                    over()
                    del self._turns[claim.sid]
                _LOGGER.debug("a turn ended", extra={"kind": type(ending).__name__})
                await self._outbox.deliver(deliveries)
            if claim.state.lineage is not None:
                # Heard, its slot is free, if nothing more waits for it.
                await self._spawner.free(claim.state.principal)

    @asynccontextmanager
    async def _shown(self, tasks: "TaskGroup", turn: OpenTurn) -> AsyncGenerator[Callable[[], None]]:
        """Show beside a turn that it goes on, once it takes longer than a moment, and in the end that it is over.

        No answer waits for that. Yields the function that tells that the turn is over: what is not shown by then is
        not shown any more.
        """
        lighting, dark = anyio.CancelScope(), anyio.Event()

        async def light() -> None:
            with lighting:
                await asyncio.sleep(self._soon)
            if not lighting.cancel_called:
                await self._signal(turn, Signal.WORKING)
                if self._turns.get(turn.claim.sid) is turn:
                    self._lit.add(turn)
            dark.set()

        tasks.start_soon(light)
        try:
            yield lighting.cancel
            # A platform that takes it in after the end would show it for ever.
            await dark.wait()
            self._lit.discard(turn)
            await self._signal(turn, Signal.DONE)
        finally:
            lighting.cancel()
            self._lit.discard(turn)

    async def _signal(self, turn: OpenTurn, signal: Signal) -> None:
        """Show that something is going on, unless how often a session works tells what its chat may not know."""
        if turn.shows:
            await self._outbox.signal(turn.standing.home, signal)

    async def _open(self, claim: Claim, past: Past) -> tuple[OpenTurn, InboxItem | None]:
        """Open a turn for the first waiting message, or go on with the one that is open.

        Then there is no message, unless the attempt before ended while that was still to be let in.
        """
        record, item = claim.state.turn, next(iter(claim.items), None)
        if record is not None and (item is None or item.position != record.position):
            item = None
        if record is None:
            item = claim.items[0]
            record = Turn(self._ids.turn(), item.position, item.dedupe, item.sender, claim.now, hops=_hops(item))
        home = Address.parse(claim.state.home)
        document, principal, asker = self._gate.document, claim.state.principal, record.sender
        standing = DecisionContext(
            sid=claim.sid,
            generation=claim.state.generation,
            turn=record.id,
            principal=principal,
            asker=asker,
            role=role(document, principal, asker),
            ceiling=labelling.ceiling(document, principal, asker) or PUBLIC,
            home=home,
            destination=await self._gate.readers.destination(home),
            taint=claim.state.taint,
            now=claim.now,
            visibility=claim.state.visibility,
            model=claim.state.model,
        )
        folds = past.folds
        turn = OpenTurn(
            self._store, self._ids, claim, record=record, standing=folds.of(standing), sender=self._outbox, folds=folds
        )
        if item is None:
            context = past.context
            turn.open_calls = {call.id: call for call in context.open_calls}
            turn.begun_calls = context.decided
        return turn, item

    async def _ending(self, turn: OpenTurn, item: InboxItem | None, past: Past) -> Ending:
        """Run a turn up to its ending; whatever goes wrong inside is an ending too.

        Raises LeaseLostError: somebody else has the session, so there is nothing to end.
        """
        obstacle = self._obstacle(turn, item)
        if obstacle is not None:
            return obstacle
        try:
            with turn.interruptible():
                if item is not None:
                    rejected = await self._admission.admit(turn, item)
                    if rejected is not None:
                        return rejected
                elif turn.record.suspended:
                    await self._resume(turn)
                return await self._agent.think(turn, past)
        except StopRequestedError:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        except DeadlinePassedError:
            return GivenUp(YieldReason.DEADLINE_EXCEEDED, TOO_LATE)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not take the worker down
            return _broken(error)

    def _obstacle(self, turn: OpenTurn, item: InboxItem | None) -> GivenUp | None:
        """Return the ending of a turn that is not to be run at all, None for one that is."""
        standing = turn.standing
        if labelling.ceiling(self._gate.document, standing.principal, standing.asker) is None:
            row = AuditRow("refused", standing.asker, {"reason": "no such principal any more"})
            return GivenUp(YieldReason.ERROR, NOT_KNOWN, rejected=None if item is None else row)
        if turn.claim.state.stopping:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        lineage = turn.claim.state.lineage
        if lineage is not None and turn.claim.now >= lineage.deadline:
            return GivenUp(YieldReason.DEADLINE_EXCEEDED, TOO_LATE)
        if turn.record.attempt > ATTEMPTS:
            why = f"given up after {ATTEMPTS} attempts"
            row = None if item is None else AuditRow("refused", standing.asker, {"reason": why})
            return GivenUp(YieldReason.ERROR, error=why, rejected=row)
        return None

    async def _resume(self, turn: OpenTurn) -> None:
        """Go on with a turn that waited for people: tell what they answered, and that it runs again."""
        known = turn.folds.newest.resolved
        turn.record = replace(turn.record, suspended=False)
        async with turn.lock:
            await turn.write(
                Change(
                    events=tuple(
                        event_log.approval_resolved(turn.standing, approval)
                        for approval in turn.approvals
                        if approval.turn == turn.record.id and approval.id not in known
                    ),
                    turn=turn.record,
                    status=Status.RUNNING,
                )
            )

    async def _end(self, turn: OpenTurn, ending: Ending) -> tuple[Delivery, ...]:
        """End a turn; an ending that cannot be written, such as an approval that ran out meanwhile, is an error."""
        try:
            return await self._endings.end(turn, ending)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - as above, and nothing of the first ending was written
            return await self._endings.end(turn, _broken(error))


class _CrowdedError(Exception):
    """A session's pool runs enough turns here; no slot is held while it waits."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim


def _hops(item: InboxItem) -> int:
    hops = item.body.get("hops", 0)
    return hops if isinstance(hops, int) else 0


def _broken(error: Exception) -> GivenUp:
    _LOGGER.error("a turn broke", exc_info=error)
    return GivenUp(YieldReason.ERROR, error="".join(traceback.format_exception(error)))
