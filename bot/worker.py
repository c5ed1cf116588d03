"""The worker: takes a session that has work, runs one turn, gives it back.

`_turn` reads as steps 4 to 7 of the way of one message. Everything a turn needs is in the store, so any
number of workers may run, and a turn that a crashed one left goes on in another.
"""

import asyncio
import traceback
from contextlib import suppress
from dataclasses import replace
from typing import Final

from bot import events
from bot.agent.context import assemble
from bot.agent.loop import Agent, Ending, GivenUp
from bot.endings import Endings
from bot.errors import LeaseLostError, StoreError, StoreGoneError
from bot.gate import Gate
from bot.ids import Ids
from bot.lease import LeaseKeeper
from bot.outbox import Outbox
from bot.sessions.port import SessionStore, Wake
from bot.sessions.values import AuditRow, Claim, Delivery, InboxItem, Status, Turn, YieldReason
from bot.standing import Standing
from bot.turn import OpenTurn, StopRequestedError
from channels.message import Address, Signal
from policy.decision import Verdict
from policy.labels import PUBLIC
from policy.request import Hook, Role

STOPPED: Final = "stopped"
NOT_KNOWN: Final = "this was asked by somebody who is not known here any more"
ATTEMPTS: Final = 3
"""How often a turn is begun: one that takes its worker down every time would go on forever."""

_WAIT: Final = 1.0
"""Seconds a worker waits for a hint before it looks again."""


class Worker:
    """Runs turns, up to `parallel` sessions at once; `interval` is seconds between two sweeps."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: SessionStore,
        wake: Wake,
        gate: Gate,
        agent: Agent,
        endings: Endings,
        outbox: Outbox,
        keeper: LeaseKeeper,
        ids: Ids,
        interval: float,
        parallel: int = 16,
    ) -> None:
        self._store = store
        self._wake = wake
        self._gate = gate
        self._agent = agent
        self._endings = endings
        self._outbox = outbox
        self._keeper = keeper
        self._ids = ids
        self._interval = interval
        self._slots = asyncio.Semaphore(parallel)
        self._busy = set[str]()
        self._again = set[str]()
        self._turns: dict[str, OpenTurn] = {}

    async def serve(self) -> None:
        """Run until cancelled: sessions marked ready, and whatever the sweep finds."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sweep(tasks))
            while True:
                try:
                    await self._start(tasks, await self._wake.ready(wait=_WAIT))
                except StoreGoneError:
                    await asyncio.sleep(_WAIT)

    def interrupt(self, sid: str) -> None:
        """Stop a session's turn now, if this worker runs it; the store knows of the stop already."""
        turn = self._turns.get(sid)
        if turn is not None:
            turn.interrupt(StopRequestedError())

    async def _sweep(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            with suppress(StoreGoneError):
                await self._start(tasks, await self._wake.sweep())
            await asyncio.sleep(self._interval)

    async def _start(self, tasks: asyncio.TaskGroup, ready: tuple[str, ...]) -> None:
        for sid in ready:
            if sid in self._busy:
                self._again.add(sid)
                continue
            await self._slots.acquire()
            self._busy.add(sid)
            tasks.create_task(self._work(sid))

    async def _work(self, sid: str) -> None:
        """Run a session's turns until nothing is left of them; a hint that came meanwhile counts."""
        try:
            while True:
                self._again.discard(sid)
                try:
                    claim = await self._store.claim(sid, f"{self._store.process}.{self._ids.owner()}")
                    if claim is None or claim.state.undelivered:
                        await self._outbox.collect(sid)
                    if claim is not None:
                        # Whatever waits afterwards was marked ready by the commit, so nothing more is asked for here.
                        await self._turn(claim)
                except (LeaseLostError, StoreGoneError):
                    # Somebody else goes on with it, or this worker does when the store is back: the sweep finds it.
                    return
                if sid not in self._again:
                    return
        finally:
            self._busy.discard(sid)
            self._slots.release()

    async def _turn(self, claim: Claim) -> None:
        """Run one turn: steps 4 to 7 of the way of one message (DESIGN section 1)."""
        turn, item = await self._open(claim)
        await self._outbox.signal(turn.standing.home, Signal.WORKING)
        self._turns[claim.sid] = turn
        try:
            with self._keeper.hold(turn):
                ending = await self._ending(turn, item)
                deliveries = await self._end(turn, ending)
        finally:
            del self._turns[claim.sid]
        await self._outbox.deliver(deliveries)
        await self._outbox.signal(turn.standing.home, Signal.DONE)

    async def _open(self, claim: Claim) -> tuple[OpenTurn, InboxItem | None]:
        """Open a turn for the first waiting message, or go on with the one that is open; then there is no message."""
        record, item = claim.state.turn, None
        if record is None:
            item = claim.items[0]
            record = Turn(self._ids.turn(), item.position, item.dedupe, item.sender, claim.now)
        home = Address.parse(claim.state.home)
        principal = self._gate.document.principals.get(claim.state.principal)
        standing = Standing(
            sid=claim.sid,
            generation=claim.state.generation,
            turn=record.id,
            principal=claim.state.principal,
            role=Role.STRANGER if principal is None else principal.role,
            ceiling=PUBLIC if principal is None else principal.clearance,
            home=home,
            destination=await self._gate.destination(home),
            taint=claim.state.taint,
            now=claim.now,
        )
        turn = OpenTurn(self._store, self._ids, claim, record, standing, self._outbox)
        if item is None:
            turn.open_calls = {call.id: call.tool for call in assemble(claim.events).open_calls}
        return turn, item

    async def _ending(self, turn: OpenTurn, item: InboxItem | None) -> Ending:
        """Run a turn up to its ending; whatever goes wrong inside is an ending too.

        Raises LeaseLostError: somebody else has the session, so there is nothing to end.
        """
        obstacle = self._obstacle(turn, item)
        if obstacle is not None:
            return obstacle
        try:
            with turn.interruptible():
                text = None
                if item is not None:
                    admitted = await self._admit(turn, item)
                    if not isinstance(admitted, str):
                        return admitted
                    text = admitted
                elif turn.record.suspended:
                    await self._resume(turn)
                return await self._agent.think(turn, text)
        except StopRequestedError:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not take the worker down
            return _broken(error)

    def _obstacle(self, turn: OpenTurn, item: InboxItem | None) -> GivenUp | None:
        """Return the ending of a turn that is not to be run at all, None for one that is."""
        if turn.standing.principal not in self._gate.document.principals:
            row = AuditRow("refused", turn.standing.principal, {"reason": "no such principal any more"})
            return GivenUp(YieldReason.ERROR, NOT_KNOWN, rejected=None if item is None else row)
        if turn.claim.state.stopping:
            return GivenUp(YieldReason.CANCELED, STOPPED)
        if turn.record.attempt > ATTEMPTS:
            return GivenUp(YieldReason.ERROR, error=f"given up after {ATTEMPTS} attempts")
        return None

    async def _resume(self, turn: OpenTurn) -> None:
        """Go on with a turn that waited for people: tell what they answered, and that it runs again."""
        known = events.resolved_in(turn.history)
        turn.record = replace(turn.record, suspended=False)
        async with turn.lock:
            await turn.write(
                events=tuple(
                    events.approval_resolved(turn.standing, approval)
                    for approval in turn.approvals
                    if approval.turn == turn.record.id and approval.id not in known
                ),
                turn=turn.record,
                status=Status.RUNNING,
            )

    async def _end(self, turn: OpenTurn, ending: Ending) -> tuple[Delivery, ...]:
        """End a turn; an ending that cannot be written, such as an approval that ran out meanwhile, is an error."""
        try:
            return await self._endings.end(turn, ending)
        except (LeaseLostError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - as above, and nothing of the first ending was written
            return await self._endings.end(turn, _broken(error))

    async def _admit(self, turn: OpenTurn, item: InboxItem) -> str | GivenUp:
        """Let a message into the context (hook PRE_CONTEXT_INJECTION); return its text as admitted."""
        standing = turn.standing
        spoken = self._gate.admit(standing, item.label, str(item.body["text"]))
        decision = spoken.decision
        row = self._gate.row(standing, Hook.PRE_CONTEXT_INJECTION, decision, position=item.position)
        if decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
            return GivenUp(YieldReason.ERROR, decision=decision, rejected=row)
        after = replace(standing, taint=decision.label_after)
        async with turn.lock:
            await turn.write(
                events=(
                    events.turn_started(standing, turn.record.attempt),
                    *events.taint_raised(standing, decision.label_after, "message"),
                    events.user_message(standing, item.sender, spoken.text, item.label),
                ),
                audit=(row, self._gate.row(after, Hook.AGENT_INVOCATION, self._gate.invoke(after))),
                take=item.position,
                turn=turn.record,
                status=Status.RUNNING,
            )
        return spoken.text


def _broken(error: Exception) -> GivenUp:
    return GivenUp(YieldReason.ERROR, error="".join(traceback.format_exception(error)))
