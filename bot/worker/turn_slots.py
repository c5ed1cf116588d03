"""Slots for turns: how many run at once in this process, and how many of one pool.

No pool, a principal's sessions of one level, takes the last of them: it runs as many at most as are left for all others
(ADR 0015). So a pool that waits delays itself.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import anyio

from bot.sessions.models import Claim
from policy.labels import Label

_MOMENT: Final = 0.2
"""Seconds that a session of a crowded pool waits at most for a turn to end."""


_AHEAD: Final = 4
"""A share of all slots: as many sessions are taken at a time, though some wait for a slot that others have free."""


class CrowdedError(Exception):
    """A session's pool runs enough turns here; no slot is held while it waits."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim


class TurnSlots:
    """Up to `parallel` sessions are worked at once."""

    def __init__(self, parallel: int) -> None:
        self.parallel = parallel
        self._slots = anyio.Semaphore(parallel, fast_acquire=True)
        self._freed = asyncio.Event()
        self._pools = dict[str, tuple[str, Label]]()
        self._crowded = deque[asyncio.Event]()

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self._slots.value

    async def room(self, seconds: float) -> int:
        """Return how many sessions to take, waiting up to some seconds for the first free slot; 0 if none became free.

        As turns often end together, it is some more than there are slots free then.
        """
        if not self.free:
            self._freed.clear()
            with anyio.move_on_after(seconds):
                await self._freed.wait()
        return max(self.free, self.parallel // _AHEAD) if self.free else 0

    async def acquire(self, seconds: float) -> bool:
        """Take a slot, waiting up to some seconds for one; return whether it was taken."""
        with anyio.move_on_after(seconds):
            await self._slots.acquire()
            return True
        return False

    def release(self) -> None:
        """Give a slot back."""
        self._slots.release()
        self._freed.set()

    @contextmanager
    def counted(self, claim: Claim) -> Generator[None]:
        """Count a turn in its pool. Raises CrowdedError: the pool has as many here as are left for all others."""
        pool = claim.state.principal, claim.state.visibility.secrecy
        if sum(one == pool for one in self._pools.values()) >= self.parallel - len(self._pools):
            raise CrowdedError(claim)
        self._pools[claim.sid] = pool
        try:
            yield
        finally:
            del self._pools[claim.sid]
            if self._crowded:
                self._crowded.popleft().set()

    async def turn_over(self) -> None:
        """Wait until a turn ends, a moment at most; those who wait longest go on first."""
        over = asyncio.Event()
        self._crowded.append(over)
        with anyio.move_on_after(_MOMENT):
            await over.wait()
        with suppress(ValueError):
            self._crowded.remove(over)
