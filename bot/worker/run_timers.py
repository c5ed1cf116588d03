"""What timers do with runs: end one whose time is over, and let one try again that its breaker paused.

Neither changes the run: it is woken with a word of the runtime, and whoever claims it does what follows. A run that has
something to do already is looked at again, until it has ended or its breaker is open no more.
"""

from typing import Final

from bot.runs import loop
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from bot.sessions.runs import Breaker, Charter, Progress
from bot.sessions.schedules import Timer

AGAIN_MS: Final = 5_000
"""When a run that could not be woken is looked at again."""


class RunTimers:
    """Wakes runs that their timers are about."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ended(self, timer: Timer) -> int:
        """Have a run ended whose deadline is now; return as `bot.worker.timers.SetOff` does. Raises StoreError."""
        found = await self._going(timer)
        if found is None:
            return 0
        state, charter, _ = found
        await self._store.runs.wake(state.sid, f"deadline/{charter.deadline}", loop.OVER, state.visibility)
        return AGAIN_MS

    async def tried(self, timer: Timer) -> int:
        """Let a run try again whose breaker is open; return as `bot.worker.timers.SetOff` does. Raises StoreError."""
        found = await self._going(timer)
        if found is None or found[2].breaker is not Breaker.OPEN:
            return 0
        state, _, progress = found
        op = f"probe/{progress.opened_at}/{progress.trips}"
        woken = await self._store.runs.wake(state.sid, op, loop.probe(progress), state.visibility, probe=True)
        return 0 if woken else AGAIN_MS

    async def _going(self, timer: Timer) -> tuple[SessionState, Charter, Progress] | None:
        """Return the run that a timer is about, None for one that has ended or is gone."""
        state = await self._store.sessions.state(timer.about)
        if state is None or state.charter is None or state.progress is None or state.progress.ended_at:
            return None
        return state, state.charter, state.progress
