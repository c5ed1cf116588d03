"""The wake-up part of the store: hints that a session has work, and the sweep that is the truth.

Two hints: `lg:ready`, sessions to look at now, and `lg:open`, sessions that may have unfinished work. A sweep checks
every session of `lg:open` and then walks a stretch of the whole store, going on where the last sweep stopped, so that
it costs the same whatever the number of idle sessions, and a session both hints lost is found all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from bot.store.base import Part
from bot.store.keys import OPEN, READY, STATES, session_keys, sid_of
from bot.store.scripts import Script
from bot.store.wire import raw, text

_MOST: Final = 64
_PAGE: Final = 500
_BLOCK_SECONDS: Final = 5.0
_NOTHING: Final = 0
_NEEDS_SOMEBODY: Final = 2


class WakeHints(Part):
    """Implements the port `Wake`."""

    _sweep_cursor = b"0"

    async def ready(self, *, wait: float) -> tuple[str, ...]:
        """Return sessions marked ready, waiting up to `wait` seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            # In slices, so that a server that vanished is noticed; 0 would mean for ever.
            slice_ = min(max(deadline - loop.time(), 0.001), _BLOCK_SECONDS)
            command = ("BZMPOP", f"{slice_:.3f}", 1, READY, "MIN", "COUNT", _MOST)
            (reply,) = await self._link.commands(command, block=slice_)
            if reply is not None:
                return tuple(text(member) for member, _ in reply[1])
            if loop.time() >= deadline:
                return ()

    async def sweep(self) -> tuple[str, ...]:
        """Find sessions with work and no live lease, or with something to send; mark them ready, return them."""
        found: dict[str, None] = {}
        cursor = b"0"
        while True:
            ((cursor, members),) = await self._link.commands(("SSCAN", OPEN, cursor, "COUNT", _PAGE))
            found |= dict.fromkeys(await self._look([text(member) for member in members]))
            if cursor == b"0":
                break
        for _ in range(0, self._options.sweep_keys, _PAGE):
            walk = ("SCAN", self._sweep_cursor, "MATCH", STATES, "COUNT", _PAGE)
            ((self._sweep_cursor, states),) = await self._link.commands(walk)
            found |= dict.fromkeys(await self._look([sid_of(key) for key in states]))
            if self._sweep_cursor == b"0":
                break
        return tuple(found)

    async def _look(self, sids: Sequence[str]) -> list[str]:
        """Probe sessions, put both hints right, and return those with something to do."""
        if not sids:
            return []
        # Taken out before looking: an input accepted after the look puts the session in again.
        await self._link.commands(("SREM", OPEN, *map(raw, sids)))
        calls = [((keys.state, keys.approvals, keys.outbox), ()) for keys in map(session_keys, sids)]
        needs = [int(reply[1]) for reply in await self._link.scripts(Script.PROBE, calls)]
        still_open = [sid for sid, need in zip(sids, needs, strict=True) if need != _NOTHING]
        ready = [sid for sid, need in zip(sids, needs, strict=True) if need == _NEEDS_SOMEBODY]
        if still_open:
            hints = [("SADD", OPEN, *map(raw, still_open)), *map(self._ready_hint, ready)]
            await self._link.commands(*hints)
        return ready
