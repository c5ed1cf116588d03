"""Rates of people and programs, counted over all processes of a store.

Each process counts its own uses at once. Every second it reports them to the store, and reads those of the other
processes. It also does so before a use if a tenth of the limit is not reported yet. So few uses take an exchange
with the store, and N processes together allow at most N - 1 tenths more than the limit. While the store is away a
process knows its own uses alone.

Uses are reported by slots of the window on the process's own clock. Each slot lasts a sixth of the window, and ends at
the store a window after its last report. So a use elsewhere may count for a sixth longer than one here.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.sessions.ports.accounts import UseReport, UseStore

MINUTE: Final = 60.0

_SLOTS: Final = 6
_PORTIONS: Final = 10
_LOOK_SECONDS: Final = 1.0
_TOGETHER: Final = 500
"""The most keys that are exchanged in one round trip."""

_MOST_KEYS: Final = 20_000
"""The most keys of one rate that a process remembers; of more, the one that was used longest ago is forgotten."""


def portion(limit: int) -> int:
    """Return how many uses a process may not have reported yet."""
    return max(1, limit // _PORTIONS)


@dataclass(slots=True)
class _Uses:
    """The uses of one key.

    Args:
        slots: Own uses by slot, those of the window.
        unreported: The slots with uses that the store does not know yet.
        counted: How many own uses there were.
        reported: How many of these the store knows.
        others: The uses of other processes by their slots, as last read.
        arrived: How many of these were read since `take_arrived`.
        looked: When they were read, on the process's clock in seconds.
        alone: Until when the store is not asked again, as it was away.
        turn: One task at a time exchanges them.
    """

    slots: dict[int, int] = field(default_factory=dict[int, int])
    unreported: set[int] = field(default_factory=set[int])
    counted: int = 0
    reported: int = 0
    others: Mapping[str, int] = field(default_factory=dict[str, int])
    arrived: int = 0
    looked: float = float("-inf")
    alone: float = float("-inf")
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def due(self, now: float, limit: int, *, spent: bool) -> bool:
        """Say whether to ask the store before another use."""
        if now < self.alone:
            return False
        return self.counted - self.reported >= portion(limit) or (spent and now - self.looked >= _LOOK_SECONDS)


class SharedUses:
    """The uses of the keys of one rate: own ones, and those of other processes as last read.

    `name` is the rate's own, and `seconds` its window.
    """

    def __init__(self, store: UseStore, clock: Clock, name: str, seconds: float) -> None:
        self._store, self._clock, self._name, self._seconds = store, clock, name, seconds
        # The key that was used longest ago comes first.
        self._known = OrderedDict[str, _Uses]()
        self._waiting = set[str]()

    def add(self, key: str) -> None:
        """Count one use of a key."""
        uses = self._known.setdefault(key, _Uses())
        self._known.move_to_end(key)
        slot = int(self._clock.monotonic() / self._seconds * _SLOTS)
        uses.slots = {one: count for one, count in uses.slots.items() if one > slot - _SLOTS} | {
            slot: uses.slots.get(slot, 0) + 1
        }
        uses.unreported.add(slot)
        uses.counted += 1
        self._waiting.add(key)
        if len(self._known) > _MOST_KEYS:
            forgotten, _ = self._known.popitem(last=False)
            self._waiting.discard(forgotten)

    def others(self, key: str) -> int:
        """Return how many uses other processes had, as last read."""
        known = self._known.get(key)
        return 0 if known is None else sum(known.others.values())

    def take_arrived(self, key: str) -> int:
        """Return how many uses of other processes were read since the last call."""
        known = self._known.get(key)
        if known is None:
            return 0
        arrived, known.arrived = known.arrived, 0
        return arrived

    async def settle(self, key: str, limit: int, spent: Callable[[], bool] = lambda: False) -> None:
        """Exchange a key with the store if a portion is not reported, or if its uses are `spent` and read a while ago.

        When this returns, one use may be counted at once. While the store is away nothing is exchanged.
        """
        uses = self._known.get(key)
        while uses is not None and uses.due(self._clock.monotonic(), limit, spent=spent()):
            async with uses.turn:
                if uses.due(self._clock.monotonic(), limit, spent=spent()):
                    await self._exchange({key: uses})

    async def exchange(self) -> None:
        """Report the new uses of all keys, and read those of other processes."""
        waiting = tuple(self._waiting)
        for begin in range(0, len(waiting), _TOGETHER):
            some = waiting[begin : begin + _TOGETHER]
            await self._exchange({key: self._known[key] for key in some if key in self._known})

    async def _exchange(self, asked: Mapping[str, _Uses]) -> None:
        told = {key: uses.counted for key, uses in asked.items()}
        reports = [
            UseReport(f"{self._name}/{key}", {slot: uses.slots.get(slot, 0) for slot in uses.unreported}, self._life)
            for key, uses in asked.items()
        ]
        now = self._clock.monotonic()
        try:
            found = await self._store.exchange(reports)
        except StoreError:
            for uses in asked.values():
                uses.alone = now + _LOOK_SECONDS
            return
        for (key, uses), others in zip(asked.items(), found, strict=True):
            uses.reported = max(uses.reported, told[key])
            uses.arrived += sum(max(0, count - uses.others.get(slot, 0)) for slot, count in others.items())
            uses.others, uses.looked = others, now
            # Slots with uses that came meanwhile are reported again.
            if uses.reported == uses.counted:
                uses.unreported.clear()
                self._waiting.discard(key)

    @property
    def _life(self) -> int:
        return round(self._seconds * 1000)


class RateLimiter:
    """At most `limit` uses for each key within a window of `seconds`; it remembers only keys that were used lately."""

    def __init__(self, uses: SharedUses, clock: Clock, limit: int, seconds: float) -> None:
        self._uses = uses
        self._clock = clock
        self._limit = limit
        self._seconds = seconds
        # The key that was used longest ago comes first.
        self._used = OrderedDict[str, deque[tuple[float, str]]]()

    async def allows(self, key: str, use: str = "") -> bool:
        """Count one use; return False, and do not count it, beyond the limit.

        A use with a name counts once in a process.
        """
        used = self._lately(key)
        if use and any(name == use for _, name in used):
            return True
        if len(used) < self._limit:
            await self._uses.settle(key, self._limit, lambda: self._taken(key) >= self._limit)
        used = self._lately(key)
        if use and any(name == use for _, name in used):
            return True
        if self._taken(key) >= self._limit:
            return False
        used.append((self._clock.monotonic(), use))
        self._used[key] = used
        self._used.move_to_end(key)
        self._uses.add(key)
        return True

    def _taken(self, key: str) -> int:
        """Return how many uses of a key there were, as far as this process knows."""
        return len(self._lately(key)) + self._uses.others(key)

    def _lately(self, key: str) -> deque[tuple[float, str]]:
        """Return the uses of a key within the window, oldest first, and forget keys without any."""
        before = self._clock.monotonic() - self._seconds
        while self._used and next(iter(self._used.values()))[-1][0] <= before:
            self._used.popitem(last=False)
        used = self._used.get(key, deque[tuple[float, str]]())
        while used and used[0][0] <= before:
            used.popleft()
        return used


class SharedRates:
    """Makes the rates of one process, and exchanges their uses with the store."""

    def __init__(self, store: UseStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._all = dict[str, SharedUses]()

    def uses(self, name: str, seconds: float = MINUTE) -> SharedUses:
        """Return the uses of the rate of this name, which has a window of `seconds`."""
        if name not in self._all:
            self._all[name] = SharedUses(self._store, self._clock, name, seconds)
        return self._all[name]

    def limiter(self, name: str, limit: int, seconds: float = MINUTE) -> RateLimiter:
        """Return a limiter of this name."""
        return RateLimiter(self.uses(name, seconds), self._clock, limit, seconds)

    async def serve(self) -> None:
        """Exchange new uses every second, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for one in self._all.values():
                await one.exchange()
