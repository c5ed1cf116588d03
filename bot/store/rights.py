"""Rights that one process of all has at a time, such as polling for one bot.

A right is leased: whoever holds it renews it, and whoever is gone loses it when the lease has run out. Nothing that is
written depends on it, as what comes in twice is taken once; it keeps two processes from taking turns at a platform that
allows one.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from bot.core.errors import StoreError
from bot.store.base import Part
from bot.store.keys import right_key
from bot.store.scripts import Script

_RENEWALS: Final = 3
"""How often a lease is renewed within its life."""


class Rights(Part):
    """Implements the port `Lease` of `channels.base`."""

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:
        """Wait for a right, hold it while the block runs, and give it back."""
        owner, pause = f"{self.process}.{self._ids.owner()}", self._options.right_ms / 1000 / _RENEWALS
        until = 0.0

        async def renewed() -> bool:
            nonlocal until
            # The lease may end as early as that: it began when the store answered, and not when it was asked.
            begun = self._clock.monotonic()
            with suppress(StoreError):
                if await self._held(name, owner, self._options.right_ms):
                    until = begun + self._options.right_ms / 1000
                    return True
            return False

        async def renew() -> None:
            while True:
                await anyio.sleep(pause)
                await renewed()

        while True:
            if await renewed():
                break
            await anyio.sleep(pause)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(renew)
            try:
                yield lambda: self._clock.monotonic() < until
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), suppress(StoreError):
                    await self._held(name, owner, 0)

    async def _held(self, name: str, owner: str, life: int) -> bool:
        reply = await self._link.script(Script.HOLD, [right_key(name)], [owner, life])
        return reply[0] == b"ok"
