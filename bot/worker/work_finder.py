"""The search for work: sessions marked ready, and sessions with work that the sweep finds without a mark."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Final

import anyio

from bot.core.errors import StoreError
from bot.delivery.sweep import Sweep, Swept
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.ports.sessions import Wake
from bot.worker.turn_slots import TurnSlots

_WAIT: Final = 1.0
"""Seconds a worker waits for a hint before it looks again."""

_MOMENT: Final = 0.2
"""Seconds within which a worker takes a hint."""


class WorkFinder:
    """Finds sessions that have work, and marks those ready that other processes should work."""

    def __init__(self, wake: Wake, sweep: Sweep, policy: PolicyReloader, quarantine: Quarantine) -> None:
        self._wake = wake
        self._sweep = sweep
        self._policy = policy
        self._quarantine = quarantine
        self._left: dict[str, float] = {}

    async def ready(self, slots: TurnSlots) -> tuple[str, ...] | None:
        """Wait for sessions marked ready, a second or two at most, and take few more than there are slots free.

        Returns None while another policy is in force: they are left to other processes. Raises StoreError.
        """
        if await self._policy.current():
            most = await slots.room(_WAIT)
            if not most:
                return () if await self._policy.current_now() else None
            ready = await self._wake.ready(wait=_WAIT, most=most)
            if await self._policy.current():
                return ready
            await self._wake.again(ready)
        return None

    async def overruled(self) -> bool:
        """Say whether another policy is in force; False if the store does not answer."""
        with suppress(StoreError):
            return not await self._policy.current_now()
        return False

    async def wait_for_policy(self) -> None:
        """Wait a second, then look which policy is in force. Raises StoreError."""
        await asyncio.sleep(_WAIT)
        await self._policy.current_now()

    async def swept(self) -> Swept:
        """Return the sessions with work but without a mark; its `own` includes those whose quarantine pause is over.

        Raises StoreError.
        """
        if not await self._policy.current():
            return Swept()
        swept = await self._sweep.find()
        return replace(swept, own=tuple(dict.fromkeys((*self._quarantine.due(), *swept.own))))

    async def later(self, sid: str, seconds: float) -> None:
        """Mark a session ready in a moment, for any worker; if this process dies before, the sweep finds it."""
        await asyncio.sleep(seconds)
        with suppress(StoreError):
            await self._wake.again((sid,))

    async def back(self, sids: tuple[str, ...]) -> None:
        """Mark sessions ready that this process was given and leaves to others. Raises StoreError."""
        await self._wake.again(sids)

    async def leave(self, sid: str) -> None:
        """Mark a session ready for a process that serves its channel.

        If this process is given it again at once, no other serves it. Raises StoreError.
        """
        now = anyio.current_time()
        self._left = {one: until for one, until in self._left.items() if until > now}
        if sid not in self._left:
            self._left[sid] = now + _MOMENT
            await self._wake.again((sid,), behind=True)
