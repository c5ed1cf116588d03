"""Clocks that differ: the finding of both doctors, and the watch of a process of `lockgate run`.

The store's servers decide by their own clocks, so a difference moves the ends of leases and rights. The bound is in
`bot.sessions.installation.clocks`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from bot.core.errors import StoreError
from bot.operations.diagnostics import compared
from bot.sessions.installation.clocks import APART_MS, NodeClock, difference

LOOK_SECONDS: Final = 60.0
"""How often a running process compares the clocks, in seconds."""

APART: Final = "clocks differ"

_LOGGER: Final = logging.getLogger(__name__)

Clocks = Callable[[], Awaitable[Sequence[NodeClock]]]
"""Asks the store's servers for their clocks. Raises StoreError."""


class ClockWatch:
    """Compares the clocks from time to time, and logs a difference that is too large, and again when it has grown.

    `seconds` is the last difference.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._logged = 0
        self.seconds = 0.0

    async def serve(self) -> None:
        """Run until cancelled."""
        while True:
            with suppress(StoreError):
                await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Compare them once. Raises StoreError."""
        found = difference(await self._clocks())
        self.seconds = found.ms / 1000
        if not found.matters:
            self._logged = 0
        elif found.ms >= self._logged + APART_MS:
            self._logged = found.ms
            told = compared(found)
            _LOGGER.warning(APART, extra={"subject": told.subject, "cause": told.problem, "step": told.next_step})
