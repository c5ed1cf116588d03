"""Keeping the order of what comes at once: one after the other in a lane, side by side in different ones."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Lanes:
    """Locks by name that are forgotten when nobody waits for them; who asks first is first."""

    def __init__(self) -> None:
        self._lanes: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncGenerator[None]:
        """Wait for a lane, and hold it."""
        lock, waiting = self._lanes.get(name, (asyncio.Lock(), 0))
        self._lanes[name] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._lanes.pop(name)
            if waiting > 1:
                self._lanes[name] = (lock, waiting - 1)
