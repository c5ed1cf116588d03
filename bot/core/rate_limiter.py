"""Rate limits that are counted in this process and forgotten when it ends."""

from collections import OrderedDict, deque

from bot.core.clock import Clock


class RateLimiter:
    """At most `limit` uses for each key within `seconds`; it remembers only keys that were used lately."""

    def __init__(self, clock: Clock, limit: int, seconds: float = 60) -> None:
        self._clock = clock
        self._limit = limit
        self._seconds = seconds
        # The key that was used longest ago comes first.
        self._used = OrderedDict[str, deque[tuple[float, str]]]()

    def allows(self, key: str, use: str = "") -> bool:
        """Count one use; return False, and do not count it, beyond the limit. A use with a name counts once."""
        before = self._clock.monotonic() - self._seconds
        while self._used and next(iter(self._used.values()))[-1][0] <= before:
            self._used.popitem(last=False)
        used = self._used.get(key, deque[tuple[float, str]]())
        while used and used[0][0] <= before:
            used.popleft()
        if use and any(name == use for _, name in used):
            return True
        if len(used) >= self._limit:
            return False
        used.append((before + self._seconds, use))
        self._used[key] = used
        self._used.move_to_end(key)
        return True
