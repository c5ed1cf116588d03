"""The timers of runs: a run's deadline has passed, or its breaker lets it try again.

Each is idempotent. Work that an open turn does itself is done here only for a run without an open turn.
"""

from typing import Final

from bot.runs import loop
from bot.sessions.background.run_states import Breaker
from bot.sessions.background.runs import Charter, Progress
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store

AGAIN: Final = 5_000
"""Milliseconds until another try to wake a run that is busy."""


class RunTimers:
    """Carries out the timers of kinds DEADLINE and PROBE, which are about a run's session."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def fire(self, timer: Timer) -> None:
        """Carry out a timer. The caller settles it afterwards. Raises StoreError."""
        state = await self._store.sessions.state(timer.about)
        if state is None or state.charter is None:
            return
        progress = state.progress or Progress()
        if progress.ended_at:
            await self._given_back(state, state.charter)
        elif timer.kind is TimerKind.DEADLINE:
            # The next turn of a run after its deadline only ends it; an open turn ends at that moment.
            op = f"deadline/{state.charter.deadline}"
            await self._store.runs.wake(state.sid, op, loop.OVER, state.visibility, hops=state.charter.hops)
        elif progress.breaker is Breaker.OPEN:
            await self._tries_again(state, state.charter, timer)

    async def _given_back(self, state: SessionState, charter: Charter) -> None:
        """Give back the place of a run that has ended, as far as its pool may know of that."""
        if state.visibility.flows_to(state.creation):
            await self._store.runs.free(state.principal, charter.run)

    async def _tries_again(self, state: SessionState, charter: Charter, timer: Timer) -> None:
        """Let a run try once more; if it is busy, a few seconds later."""
        progress = state.progress or Progress()
        op, text = f"probe/{progress.opened_at}", loop.probe(progress)
        if not await self._store.runs.wake(state.sid, op, text, state.visibility, hops=charter.hops, probe=True):
            now = self._store.tokens.now_ms()
            await self._store.schedules.set_timer(Timer(timer.kind, timer.about, now + AGAIN))
