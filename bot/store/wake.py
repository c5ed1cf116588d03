"""The wake-up part of the store: hints that a session has work, and the sweep that is the truth.

Two hints: `lg:ready`, sessions to look at now, and `lg:open`, sessions that may have unfinished work. A sweep checks
every session of `lg:open` and then walks a stretch of the whole store, going on where the last sweep stopped, so that
it costs the same whatever the number of idle sessions, and a session both hints lost is found all the same. On that
walk sessions are also filed where listings look for them. Sessions that may have dead letters are noted on both.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Final

from bot.store.base import POLICY_ASKED
from bot.store.filing import Filing
from bot.store.keys import LETTERS, OPEN, PROCESS, READY, STATES, encode, session_keys, sid_of
from bot.store.link import Command
from bot.store.scripts import Script
from bot.store.wire import raw, text

_MOST: Final = 64
_PAGE: Final = 500
_BLOCK_SECONDS: Final = 5.0
_NOTHING: Final = 0
_NEEDS_SOMEBODY: Final = 2
_NAME: Final = re.compile(r" name=(\S+)")


class WakeHints(Filing):
    """Implements the port `Wake`."""

    _sweep_cursor = b"0"
    _missing = frozenset[str]()

    async def ready(self, *, wait: float) -> tuple[str, ...]:
        """Return sessions marked ready, waiting up to `wait` seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            # In slices, so that a server that vanished is noticed; 0 would mean for ever.
            slice_ = min(max(deadline - loop.time(), 0.001), _BLOCK_SECONDS)
            command = ("BZMPOP", f"{slice_:.3f}", 1, READY, "MIN", "COUNT", _MOST)
            reply, policy = await self._link.commands(command, POLICY_ASKED, block=slice_)
            self._saw_policy(policy)
            if reply is not None:
                return tuple(text(member) for member, _ in reply[1])
            if loop.time() >= deadline:
                return ()

    async def again(self, sids: tuple[str, ...]) -> None:
        """Mark sessions ready that `ready` returned and that this process leaves to another."""
        if sids:
            await self._link.commands(*map(self._ready_hint, sids))

    async def others(self) -> bool:
        """Say whether another process has the store open; one that cannot be asked is believed to be there."""
        alive = await self._alive()
        return self.process not in alive or any(name.startswith(PROCESS) for name in alive - {self.process})

    async def sweep(self, channels: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Find sessions with work and no live lease, or with something to send; mark them ready, return them.

        Only what is for these channels, none standing for all: the rest is left to who serves it.
        """
        served = tuple(map(encode, channels))
        found: dict[str, None] = {}
        gone = await self._gone()
        cursor = b"0"
        while True:
            ((cursor, members),) = await self._link.commands(("SSCAN", OPEN, cursor, "COUNT", _PAGE))
            found |= dict.fromkeys(await self._look([text(member) for member in members], gone, served))
            if cursor == b"0":
                break
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.walk_seconds
        for _ in range(0, self._options.sweep_keys, _PAGE):
            walk = ("SCAN", self._sweep_cursor, "MATCH", STATES, "COUNT", _PAGE)
            ((self._sweep_cursor, states),) = await self._link.commands(walk)
            walked = [sid_of(key) for key in states]
            found |= dict.fromkeys(await self._look(walked, gone, served))
            await self._refile(walked)
            if self._sweep_cursor == b"0" or loop.time() > until:
                break
        return tuple(found)

    async def _gone(self) -> Callable[[str], bool]:
        """Return a test for processes that had no connection at this sweep and at the one before.

        Their leases need not be waited for. Twice, so that a server's restart, after which everybody connects
        anew, takes nobody's work away; and only if we see ourselves, as behind a proxy nobody would be seen.
        """
        alive = await self._alive()
        missing = self._missing if self.process in alive else frozenset[str]()
        self._missing = frozenset[str]()

        def gone(holder: str) -> bool:
            process = holder.partition(".")[0]
            if not process.startswith(PROCESS) or process in alive or self.process not in alive:
                return False
            self._missing |= {process}
            return process in missing

        return gone

    async def _alive(self) -> set[str]:
        """Return the names of all who are connected to the store."""
        (listing,) = await self._link.commands(("CLIENT", "LIST"))
        return {name for line in text(listing).splitlines() for name in _NAME.findall(line)}

    async def _look(self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]) -> list[str]:
        """Put the hints about sessions right, and return those with something to do."""
        ready, idle = await self._probed(sids, gone, served)
        if idle:
            # Only what has nothing is taken out: who looks for questions meanwhile finds the others.
            taken = await self._link.commands(*(("SREM", OPEN, raw(sid)) for sid in idle))
            # What was accepted between look and removal would be in no hint.
            again, _ = await self._probed([sid for sid, out in zip(idle, taken, strict=True) if out], gone, served)
            ready += again
        return ready

    async def _probed(
        self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Probe sessions and add them to the hints they belong to; return those with something to do and with nothing.

        What a process that is gone holds of them is freed.
        """
        if not sids:
            return [], []
        calls = [((keys.state, keys.approvals, keys.outbox), served) for keys in map(session_keys, sids)]
        still_open, ready, idle, dead = list[str](), list[str](), list[str](), list[str]()
        for sid, reply in zip(sids, await self._link.scripts(Script.PROBE, calls), strict=True):
            if reply is None:
                # It stays where it is looked for; who works on it meets what is wrong.
                still_open.append(sid)
                continue
            need = int(reply[2])
            freed = [await self._take_from(sid, holder) for holder in map(text, reply[3:]) if gone(holder)]
            if int(reply[1]):
                dead.append(sid)
            (idle if need == _NOTHING else still_open).append(sid)
            if need == _NEEDS_SOMEBODY or any(freed):
                ready.append(sid)
        hints = list[Command]()
        if still_open:
            hints += [("SADD", OPEN, *map(raw, still_open)), *map(self._ready_hint, ready)]
        if dead:
            hints.append(("SADD", LETTERS, *map(raw, dead)))
        if hints:
            await self._link.commands(*hints)
        return ready, idle

    async def _take_from(self, sid: str, holder: str) -> bool:
        """Free what a process that is gone holds of a session; return whether there is something to do now."""
        keys = session_keys(sid)
        names = [keys.state, keys.approvals, keys.outbox]
        (reply,) = await self._link.scripts(Script.VANISH, [(names, [raw(holder.partition(".")[0])])])
        return reply is not None and bool(reply[1])
