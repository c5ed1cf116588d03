"""The worker: takes a session that has work, runs its turns, gives it back.

Everything a turn needs is in the store, so any number of workers may run, and another worker continues a turn that a
crashed one left. A worker that ends lets its turns end first, for a while, and hands on those that still run.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

import anyio

from bot.core.errors import ElsewhereError, LeaseLostError, StoreError, StoreGoneError, UnsettledError
from bot.core.logs import bound
from bot.delegation.spawn import Spawner
from bot.delivery.sweep import Swept
from bot.quarantine import Quarantine
from bot.sessions.models import Doing
from bot.worker.claimer import Claimer
from bot.worker.turn_runner import TurnRunner
from bot.worker.turn_signals import TurnSignals
from bot.worker.turn_slots import CrowdedError, TurnPool, TurnSlots
from bot.worker.work_finder import WorkFinder

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_AWAY: Final = 1.0
"""Seconds that a worker waits for a store that does not answer."""

_HANDING_ON: Final = 5.0
"""The most seconds for handing turns on."""

_LOOK: Final = 0.1
"""Seconds until a turn that had only begun to open is handed on, too."""

_LONG: Final = 1.0
"""Seconds to wait for a slot before checking which policy is in force."""

OVERRULED: Final = "another policy is in force, another process goes on with this"
HANDED_ON: Final = "this process ends, another one goes on with this"


class Worker:
    """Works sessions, as many at once as there are `slots`."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        finder: WorkFinder,
        claimer: Claimer,
        runner: TurnRunner,
        slots: TurnSlots,
        signals: TurnSignals,
        quarantine: Quarantine,
        spawner: Spawner,
    ) -> None:
        self._finder = finder
        self._claimer = claimer
        self._runner = runner
        self._slots = slots
        self._signals = signals
        self._quarantine = quarantine
        self._spawner = spawner
        self._busy = set[str]()
        self._again = set[str]()
        self._draining = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def serve(self) -> None:
        """Run until cancelled or drained: sessions marked ready, and those that the sweep finds.

        Sends under way are finished: the tasks are of a group whose shields hold when it is cancelled.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sweep, tasks)
            tasks.start_soon(self._signals.serve, tasks)
            while not self._draining:
                try:
                    ready = await self._finder.ready(self._slots)
                    if ready is None:
                        self._runner.give_up(OVERRULED)
                        await self._finder.wait_for_policy()
                    else:
                        await self._start(tasks, ready)
                except StoreError:
                    # The store is away, or its disk is full: either may be mended.
                    await asyncio.sleep(_AWAY)
            self._signals.end()

    async def drain(self, seconds: float, hurry: asyncio.Event) -> int:
        """Claim nothing more and let turns end for `seconds`, less if `hurry` is set; then leave them to other workers.

        Their leases are given back, so that no worker waits for them. Returns how many sessions were left so.
        """
        self._draining = True
        with anyio.move_on_after(seconds):
            await _first_of(self._quiet, hurry)
        left = len(self._busy)
        with anyio.move_on_after(_HANDING_ON):
            while self._busy:
                self._runner.give_up(HANDED_ON)
                with anyio.move_on_after(_LOOK):
                    await self._quiet.wait()
        return left

    def interrupt(self, sid: str, only: str = "") -> None:
        """Stop a session's turn now, if this worker runs it; the store knows of the stop already.

        With `only` that turn and no other: the next one may have begun meanwhile.
        """
        self._runner.interrupt(sid, only)

    async def _sweep(self, tasks: "TaskGroup") -> None:
        while not self._draining:
            swept = Swept()
            with suppress(StoreError):
                swept = await self._finder.swept()
                # The found ones are marked ready: the queue decides whose turn it is.
                await self._start(tasks, swept.own)
            self._signals.again(tasks)
            await asyncio.sleep(swept.wait)

    async def _start(self, tasks: "TaskGroup", ready: tuple[str, ...]) -> None:
        for sid in ready:
            if sid in self._busy:
                self._again.add(sid)
                continue
            if self._quarantine.rests(sid):
                # The sweep finds it when its pause is over.
                continue
            while not await self._slots.acquire(_LONG):
                # The turns in all slots may run by a policy that is no longer in force.
                if await self._finder.overruled():
                    self._runner.give_up(OVERRULED)
            if self._draining:
                self._slots.release()
                self._again.add(sid)
                continue
            self._busy.add(sid)
            self._quiet.clear()
            tasks.start_soon(self._work, tasks, sid)
        if self._draining:
            await self._hand_back()

    async def _hand_back(self) -> None:
        """Mark sessions ready that this worker was given and does not work any more, for another worker."""
        again, self._again = tuple(self._again), set[str]()
        with suppress(StoreError):
            await self._finder.back(again)

    async def _work(self, tasks: "TaskGroup", sid: str) -> None:
        """Run a session's turns until no work is left; a hint that came meanwhile counts."""
        slot = True
        try:
            while True:
                self._again.discard(sid)
                try:
                    with bound(session=sid):
                        await self._claim_and_run(sid)
                except UnsettledError as error:
                    # No slot is held meanwhile.
                    tasks.start_soon(self._finder.later, sid, error.seconds)
                except CrowdedError:
                    slot = False
                    return
                except StoreGoneError:
                    # Another worker continues it, or this one does when the store is back: the sweep finds it.
                    return
                except Exception as error:  # noqa: BLE001 - one session that cannot be worked must not end the others
                    await self._report(sid, error)
                    return
                if self._draining:
                    await self._hand_back()
                    return
                if sid not in self._again:
                    return
        finally:
            self._busy.discard(sid)
            if slot:
                self._slots.release()
            if not self._busy:
                self._quiet.set()

    async def _report(self, sid: str, error: Exception) -> None:
        """Leave a session that could not be worked alone for a while, and tell operators."""
        with suppress(StoreError):
            await self._quarantine.put(sid, Doing.WORK, error)

    async def _claim_and_run(self, sid: str) -> None:
        """Claim a session and run a turn, if there is work for it and the policy here is the one in force.

        Raises CrowdedError: its pool has no place, and it is left to any worker.
        """
        try:
            taken = await self._claimer.take(sid)
        except ElsewhereError:
            await self._finder.leave(sid)
            return
        if taken is None:
            return
        claim, state = taken.claim, taken.claim.state
        pool = TurnPool(state.principal, state.visibility.secrecy, background=state.background is not None)
        async with AsyncExitStack() as until:
            try:
                if not self._draining:
                    await until.enter_async_context(self._slots.place(pool))
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(StoreError):
                    await self._claimer.release(claim)
                raise
            if not self._draining:
                with suppress(LeaseLostError):
                    # The commit marked the session ready for any input that waits afterwards, so nothing more is needed
                    # here.
                    await self._runner.run_turn(claim, taken.since)
                    if claim.state.lineage is not None:
                        # Its report was heard, so its slot is free, if nothing more waits for it.
                        await self._spawner.free(claim.state.principal)
                    await self._quarantine.done(sid, Doing.WORK)
                    return
        await self._claimer.release(claim)


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of some events is set."""
    async with anyio.create_task_group() as tasks:

        async def until(event: asyncio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in events:
            tasks.start_soon(until, event)
