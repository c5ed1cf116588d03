"""How often something may be done: counted in this process, forgotten when it ends."""

from collections import deque

from bot.clock import Clock


class RateLimiter:
    """At most `limit` uses per key within `seconds`; it remembers only keys that were used lately."""

    def __init__(self, clock: Clock, limit: int, seconds: float = 60) -> None:
        self._clock = clock
        self._limit = limit
        self._seconds = seconds
        self._used: dict[str, deque[float]] = {}

    def allows(self, key: str) -> bool:
        """Count one use; return False, and do not count it, if there were too many."""
        now = self._clock.monotonic()
        for known, times in list(self._used.items()):
            while times and times[0] <= now - self._seconds:
                times.popleft()
            if not times:
                del self._used[known]
        used = self._used.setdefault(key, deque())
        if len(used) >= self._limit:
            return False
        used.append(now)
        return True
