"""Slots for turns: how many run at once in this process, and how many of one pool.

A pool is a principal's sessions of one level and kind: conversations, or background sessions, for which a person's
message must not wait. No pool takes the last slots: it runs at most as many turns as slots are
left for all others (ADR 0015). So a pool that waits delays only itself. Its sessions wait a moment for a place, in the
order of their arrival, and hold no slot meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from policy.labels import Label

MOMENT: Final = 1.0
"""The most seconds that a session of a crowded pool waits for a place."""

_AHEAD: Final = 4
"""The part of all slots (one in so many) that sets how many sessions are taken at a time: some may wait for a slot."""


@dataclass(frozen=True, slots=True)
class TurnPool:
    """The sessions of a principal at one level, with the same compartments; background sessions are apart."""

    principal: str
    secrecy: Label
    background: bool = False


class CrowdedError(Exception):
    """A session's pool has as many turns here as it may."""


@dataclass(eq=False, slots=True)
class _Place:
    """A place that a session of a crowded pool waits for."""

    given: asyncio.Event = field(default_factory=asyncio.Event)


class TurnSlots:
    """Up to `parallel` sessions are worked at once; one of a crowded pool waits for `moment` seconds."""

    def __init__(self, parallel: int, moment: float = MOMENT) -> None:
        self.parallel = parallel
        self._moment = moment
        self._slots = anyio.Semaphore(parallel, fast_acquire=True)
        self._freed = asyncio.Event()
        self._taken = list[TurnPool]()
        self._waiting = dict[TurnPool, deque[_Place]]()

    @property
    def free(self) -> int:
        """How many slots are free."""
        return self._slots.value

    async def room(self, seconds: float) -> int:
        """Return how many sessions to take, waiting up to some seconds for the first free slot; 0 if none became free.

        As turns often end together, it is some more than the slots that are free then.
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

    @asynccontextmanager
    async def place(self, pool: TurnPool) -> AsyncGenerator[None]:
        """Run a turn in a pool, after those that came before; the caller holds a slot.

        Raises CrowdedError: no place became free in a moment. The caller then holds no slot any more.
        """
        if self._has_place(pool):
            self._taken.append(pool)
        else:
            await self._wait(pool)
        try:
            yield
        finally:
            self._leave(pool)

    def _has_place(self, pool: TurnPool) -> bool:
        return self._taken.count(pool) < self.parallel - len(self._taken)

    async def _wait(self, pool: TurnPool) -> None:
        """Wait for a place that others leave, and for a slot. Raises CrowdedError."""
        place = _Place()
        waiting = self._waiting.setdefault(pool, deque())
        waiting.append(place)
        self.release()
        try:
            with anyio.move_on_after(self._moment):
                await place.given.wait()
                await self._slots.acquire()
                return
        except BaseException:
            self._give_up(pool, place)
            # The caller gives back the slot that it believes to hold.
            with anyio.CancelScope(shield=True):
                await self._slots.acquire()
            raise
        self._give_up(pool, place)
        raise CrowdedError

    def _give_up(self, pool: TurnPool, place: "_Place") -> None:
        """Stop waiting for a place; one that was given meanwhile goes to the next."""
        if place.given.is_set():
            self._leave(pool)
            return
        self._waiting[pool].remove(place)
        if not self._waiting[pool]:
            del self._waiting[pool]

    def _leave(self, pool: TurnPool) -> None:
        """Give a place back, and give the free places to sessions that wait."""
        self._taken.remove(pool)
        for waiting in list(self._waiting):
            while waiting in self._waiting and self._has_place(waiting):
                self._taken.append(waiting)
                self._waiting[waiting].popleft().given.set()
                if not self._waiting[waiting]:
                    del self._waiting[waiting]
