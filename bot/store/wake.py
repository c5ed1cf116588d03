"""Wake-ups: hints that a session has work, and the sweep that finds sessions whose hints were lost.

There are two hints: `lg:ready`, sessions to read now, and `lg:open`, sessions that may have unfinished work. A sweep
checks every session of `lg:open` and then walks a part of the whole store, continuing where the last sweep stopped. So
its cost does not depend on the number of idle sessions, and it finds a session even if both hints were lost. On that
walk sessions are also filed for listings, and sessions that may have dead letters are noted on both ways. Processes
that search for the same channels take turns, and each continues where the one before stopped: the store is swept once,
regardless of their number.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bot.sessions.models import SCHEMA
from bot.store.calls import session_call
from bot.store.lifecycle import Eraser
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.schema import (
    LETTERS,
    OPEN,
    PROCESS,
    READY,
    STATES,
    encode,
    right_key,
    session_keys,
    sid_of,
    sweep_key,
)
from bot.store.scripts.loader import Script
from bot.store.servers.connection import WALKED, Command
from bot.store.session_index import Filing
from bot.store.shared import POLICY_ASKED, Shared

_MOST: Final = 64


_PAGE: Final = 500


_BLOCK_SECONDS: Final = 5.0


_WORK: Final = "work"
"""A probe's answer for a session with work for a process that serves its channel."""


_ERASE: Final = "erase"
"""A probe's answer for a deleted session that is not completely erased."""


_ENDLESS: Final = -1
"""The server's answer for a key without an expiry."""


_NAME: Final = re.compile(r" name=(\S+)")


_NEEDS: Final = codec.stored_fields("turn", "waiting", "undelivered", "erasing", "dead_until")
"""Fields of a session's record; without all of them it needs nothing."""


_VERSION: Final = codec.stored_fields("version")


class RedisWake:
    """Implements the port `Wake`."""

    def __init__(self, shared: Shared, filing: Filing, eraser: Eraser) -> None:
        self._shared = shared
        self._filing = filing
        self._eraser = eraser
        # The names of sweeps whose turn this process took, and those that it began.
        self._begun = set[str]()
        self._swept = set[str]()

    async def ready(self, *, wait: float, most: int = _MOST) -> tuple[str, ...]:
        """Return up to `most` sessions marked ready, waiting up to `wait` seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            # In slices, so that a server that vanished is noticed; 0 would mean for ever.
            slice_ = min(max(deadline - loop.time(), 0.001), _BLOCK_SECONDS)
            command = ("BZMPOP", f"{slice_:.3f}", 1, READY, "MIN", "COUNT", most)
            reply, policy = await self._shared.connection.in_order((command,), (POLICY_ASKED,), block=slice_)
            self._shared.saw_policy(policy)
            if reply is not None:
                return self._shared.queue.took(reply[1])
            if loop.time() >= deadline:
                return ()

    async def again(self, sids: tuple[str, ...], *, behind: bool = False) -> None:
        """Mark sessions ready that `ready` returned and that this process does not work."""
        if sids:
            await self._shared.connection.commands(self._shared.ready_hint(*sids, again=not behind))

    async def others(self) -> bool:
        """Say whether another process has the store open; True if the server does not tell."""
        alive = await self._alive()
        return self._shared.process not in alive or any(
            name.startswith(PROCESS) for name in alive - {self._shared.process}
        )

    async def sweep_turn(self, name: str, seconds: float) -> float:
        """Take the turn to sweep, for `seconds`, among the processes of this name; a new process need not wait.

        Returns 0 if this process may sweep now, or the number of seconds after which to ask again.
        """
        key, life = right_key(f"sweep/{name}"), round(seconds * 1000)
        take: Command = ("SET", key, self._shared.process, "PX", life)
        only = ("NX",) if name in self._begun else ()
        taken, left = await self._shared.connection.commands((*take, *only), ("PTTL", key))
        self._begun.add(name)
        if taken is None and (left == _ENDLESS or left > life):
            # The store's clock was set back; without this, no process would sweep until it caught up.
            (taken,) = await self._shared.connection.commands(take)
        return 0 if taken is not None else max(left, 1) / 1000

    async def sweep(self, channels: tuple[str, ...] = (), *, name: str = "") -> tuple[str, ...]:
        """Find sessions with work and no live lease, or with something to send; mark them ready, return them.

        Only those of these channels, empty for all: the others are left to the processes that serve them. It continues
        where the last sweep of this name stopped.
        """
        served = tuple(map(encode, channels))
        found, walked_to = dict[str, int](), dict[str, int]()
        looked = set[str]()
        progress = sweep_key(name)
        ((walk, missing),) = await self._shared.connection.commands(("HMGET", progress, "walk", "missing"))
        gone, missing = await self._gone((missing or b"").split() if name in self._swept else [])
        self._swept.add(name)
        cursor = b"0"
        while True:
            ((cursor, members),) = await self._shared.connection.commands(("SSCAN", OPEN, cursor, "COUNT", _PAGE))
            sids = [text(member) for member in members]
            looked.update(sids)
            await self._mark(ready := await self._look(sids, gone, served))
            found |= ready
            if cursor == b"0":
                break
        walk = walk or WALKED
        loop = asyncio.get_running_loop()
        until = loop.time() + self._shared.options.walk_seconds
        for _ in range(0, self._shared.options.sweep_keys, _PAGE):
            walk, states = await self._shared.connection.walk(walk, STATES, _PAGE)
            walked = [sid_of(key) for key in states]
            walked_to |= await self._look([sid for sid in walked if sid not in looked], gone, served)
            await self._filing.refile(walked)
            if walk == WALKED or loop.time() > until:
                break
        await self._mark(walked_to)
        await self._shared.connection.commands(("HSET", progress, "walk", walk, "missing", " ".join(sorted(missing))))
        return tuple(found | walked_to)

    async def _gone(self, before: Sequence[bytes]) -> tuple[Callable[[str], bool], set[str]]:
        """Return a test for processes without a connection at this sweep and the one `before`, and their names now.

        Their leases need not be waited for. A server's restart, after which every process connects anew, must not take
        work away from any. So it takes two sweeps, and not the first one of a process, which may follow the one before
        at once. It also requires that we see ourselves, since behind a proxy no process would be seen.
        """
        alive = await self._alive()
        seen, missing = self._shared.process in alive, set[str]()

        def gone(holder: str) -> bool:
            process = holder.partition(".")[0]
            if not seen or not process.startswith(PROCESS) or process in alive:
                return False
            missing.add(process)
            return process.encode() in before

        return gone, missing

    async def _alive(self) -> set[str]:
        """Return the names of all connections to the store."""
        listings = await self._shared.connection.everywhere(("CLIENT", "LIST"))
        return {name for _, listing in listings for line in text(listing).splitlines() for name in _NAME.findall(line)}

    async def _mark(self, found: Mapping[str, int]) -> None:
        """Mark sessions ready, those whose last change is the oldest first."""
        if found:
            await self._shared.connection.commands(self._shared.ready_hint(*sorted(found, key=lambda sid: found[sid])))

    async def _look(self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]) -> dict[str, int]:
        """Correct the hints about sessions, and return those with something to do, with the times of their changes."""
        needy, idle = await self._told_apart(sids)
        ready, more = await self._probed(needy, gone, served)
        idle += more
        if idle:
            # Only sessions without any work are removed: a search for questions meanwhile finds the others.
            taken = await self._shared.connection.commands(*(("SREM", OPEN, raw(sid)) for sid in idle))
            # An input accepted between the check and the removal would be in no hint.
            needy, _ = await self._told_apart([sid for sid, out in zip(idle, taken, strict=True) if out])
            again, _ = await self._probed(needy, gone, served)
            ready |= again
        return ready

    async def _told_apart(self, sids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the sessions that may need something, and the others, which are the most and need no probe."""
        asked = [("HMGET", session_keys(sid).state, *_VERSION, *_NEEDS) for sid in sids]
        needy, idle = list[str](), list[str]()
        for sid, found in zip(sids, await self._shared.connection.reads(*asked), strict=True):
            # The script decides about unreadable records.
            version, *needs = found or [b""]
            quiet = version in {None, b"%d" % SCHEMA} and needs == [None] * len(_NEEDS)
            (idle if quiet else needy).append(sid)
        return needy, idle

    async def _probed(
        self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]
    ) -> tuple[dict[str, int], list[str]]:
        """Probe sessions, and add those that need something to the hint of these.

        Leases and sends of processes that are gone are freed. Returns the sessions with something to do, with the times
        of their changes, and those that need nothing.
        """
        if not sids:
            return {}, []
        args = {"channels": list(served)}
        replies = await self._shared.run_all([session_call(Script.PROBE, session_keys(sid), args) for sid in sids])
        still_open, idle, dead = list[str](), list[str](), list[str]()
        ready = dict[str, int]()
        for sid, got in zip(sids, replies, strict=True):
            if got is None:
                # It stays in the hint; the worker of the session reports the defect.
                still_open.append(sid)
                continue
            need = got.text("need")
            if need == _ERASE:
                await self._eraser.erase_again(sid)
                idle.append(sid)
                continue
            freed = [await self._take_from(sid, one) for one in map(text, got.list("holders")) if gone(one)]
            if got.flag("dead"):
                dead.append(sid)
            (still_open if need else idle).append(sid)
            if need == _WORK or any(freed):
                self._shared.queue.know_by(sid, got)
                ready[sid] = got.number("updated")
        hints = list[Command]()
        if still_open:
            hints.append(("SADD", OPEN, *map(raw, still_open)))
        if dead:
            hints.append(("SADD", LETTERS, *map(raw, dead)))
        if hints:
            await self._shared.connection.commands(*hints)
        return ready, idle

    async def _take_from(self, sid: str, holder: str) -> bool:
        """Free the holds of a process that is gone on a session; return whether there is something to do now."""
        args = {"process": holder.partition(".")[0]}
        (got,) = await self._shared.run_all([session_call(Script.RECLAIM_PROCESS, session_keys(sid), args)])
        return got is not None and got.flag("ready")
