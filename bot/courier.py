"""The courier: says what waits to be said, in a process that runs no turns.

It takes no marks of readiness, which are for workers; the sweep tells what waits, so while no worker says it, it is
said within one `interval`.
"""

from contextlib import suppress

import anyio

from bot.copies import Copies
from bot.errors import StoreError
from bot.outbox import Outbox
from bot.reload import Reloader
from bot.sessions.port import Wake

_PARALLEL = 16


class Courier:
    """Delivers for the channels of its outbox; `interval` is seconds between two sweeps."""

    def __init__(self, wake: Wake, outbox: Outbox, copies: Copies, policy: Reloader, interval: float) -> None:
        self._wake = wake
        self._outbox = outbox
        self._copies = copies
        self._policy = policy
        self._interval = interval
        self._slots = anyio.Semaphore(_PARALLEL)
        self._busy = set[str]()

    async def serve(self) -> None:
        """Run until cancelled. What is being said then is said to its end."""
        async with anyio.create_task_group() as tasks:
            while True:
                with suppress(StoreError):
                    if await self._policy.current():
                        await self._copies.sweep()
                        for sid in await self._wake.sweep(self._outbox.channels):
                            if sid not in self._busy:
                                self._busy.add(sid)
                                tasks.start_soon(self._collect, sid)
                    else:
                        await self._policy.current_now()
                await anyio.sleep(self._interval)

    async def _collect(self, sid: str) -> None:
        try:
            async with self._slots:
                with suppress(StoreError):
                    await self._outbox.collect(sid)
        finally:
            self._busy.discard(sid)
