"""Wake-ups: hints that a session has work, and the sweep that finds what they lost.

Two hints wake: `lg:ready`, sessions to look at now, and `lg:open`, sessions that may have unfinished work. A sweep
checks every session of `lg:open` and then walks a stretch of the whole store, going on where the last sweep stopped, so
that it costs the same whatever the number of idle sessions, and a session both hints lost is found all the same. On
that walk sessions are also filed where listings look for them. Sessions that may have dead letters are noted on both.
Processes that look for the same take turns, and each goes on where the one before stopped: however many they are, the
store is swept once.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
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
"""What a probe says of a session that has something to do for who serves its channel."""


_ERASE: Final = "erase"
"""What it says of one that was deleted, and of which something is left."""


_ENDLESS: Final = -1
"""What the server says of a key that never ends."""


_NAME: Final = re.compile(r" name=(\S+)")


_NEEDS: Final = codec.stored_fields("turn", "waiting", "undelivered", "erasing", "dead_until")
"""Fields of a session's record without which it needs nothing."""


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
                return tuple(text(member) for member, _ in reply[1])
            if loop.time() >= deadline:
                return ()

    async def again(self, sids: tuple[str, ...]) -> None:
        """Mark sessions ready that `ready` returned and that this process leaves to another."""
        if sids:
            await self._shared.connection.commands(*map(self._shared.ready_hint, sids))

    async def others(self) -> bool:
        """Say whether another process has the store open; one that cannot be asked is believed to be there."""
        alive = await self._alive()
        return self._shared.process not in alive or any(
            name.startswith(PROCESS) for name in alive - {self._shared.process}
        )

    async def sweep_turn(self, name: str, seconds: float) -> float:
        """Take the turn to sweep, for `seconds`, of the processes of this name; a process that begins waits for none.

        Returns 0, or in how many seconds to ask again.
        """
        key, life = right_key(f"sweep/{name}"), round(seconds * 1000)
        take: Command = ("SET", key, self._shared.process, "PX", life)
        only = ("NX",) if name in self._begun else ()
        taken, left = await self._shared.connection.commands((*take, *only), ("PTTL", key))
        self._begun.add(name)
        if taken is None and (left == _ENDLESS or left > life):
            # The store's clock was set back, and nobody would sweep until it is where it was.
            (taken,) = await self._shared.connection.commands(take)
        return 0 if taken is not None else max(left, 1) / 1000

    async def sweep(self, channels: tuple[str, ...] = (), *, name: str = "") -> tuple[str, ...]:
        """Find sessions with work and no live lease, or with something to send; mark them ready, return them.

        Only what is for these channels, none standing for all: the rest is left to who serves it. It goes on where
        the last sweep of this name stopped.
        """
        served = tuple(map(encode, channels))
        found: dict[str, None] = {}
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
            found |= dict.fromkeys(await self._look(sids, gone, served))
            if cursor == b"0":
                break
        walk = walk or WALKED
        loop = asyncio.get_running_loop()
        until = loop.time() + self._shared.options.walk_seconds
        for _ in range(0, self._shared.options.sweep_keys, _PAGE):
            walk, states = await self._shared.connection.walk(walk, STATES, _PAGE)
            walked = [sid_of(key) for key in states]
            found |= dict.fromkeys(await self._look([sid for sid in walked if sid not in looked], gone, served))
            await self._filing.refile(walked)
            if walk == WALKED or loop.time() > until:
                break
        await self._shared.connection.commands(("HSET", progress, "walk", walk, "missing", " ".join(sorted(missing))))
        return tuple(found)

    async def _gone(self, before: Sequence[bytes]) -> tuple[Callable[[str], bool], set[str]]:
        """Return a test for processes that had no connection at this sweep and at the one `before`, and who has none.

        Their leases need not be waited for. Twice, so that a server's restart, after which everybody connects
        anew, takes nobody's work away, and for that reason not at the first sweep of a process, which may follow the
        one before in no time; and only if we see ourselves, as behind a proxy nobody would be seen.
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
        """Return the names of all who are connected to the store."""
        listings = await self._shared.connection.everywhere(("CLIENT", "LIST"))
        return {name for _, listing in listings for line in text(listing).splitlines() for name in _NAME.findall(line)}

    async def _look(self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]) -> list[str]:
        """Put the hints about sessions right, and return those with something to do."""
        needy, idle = await self._told_apart(sids)
        ready, more = await self._probed(needy, gone, served)
        idle += more
        if idle:
            # Only what has nothing is taken out: who looks for questions meanwhile finds the others.
            taken = await self._shared.connection.commands(*(("SREM", OPEN, raw(sid)) for sid in idle))
            # What was accepted between look and removal would be in no hint.
            needy, _ = await self._told_apart([sid for sid, out in zip(idle, taken, strict=True) if out])
            again, _ = await self._probed(needy, gone, served)
            ready += again
        return ready

    async def _told_apart(self, sids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the sessions that may need something, and the others: they are the most, and a probe takes longer."""
        asked = [("HMGET", session_keys(sid).state, *_VERSION, *_NEEDS) for sid in sids]
        needy, idle = list[str](), list[str]()
        for sid, found in zip(sids, await self._shared.connection.reads(*asked), strict=True):
            # What cannot be read is for the script to say.
            version, *needs = found or [b""]
            quiet = version in {None, b"%d" % SCHEMA} and needs == [None] * len(_NEEDS)
            (idle if quiet else needy).append(sid)
        return needy, idle

    async def _probed(
        self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Probe sessions and add them to the hints they belong to; return those with something to do and with nothing.

        What a process that is gone holds of them is freed.
        """
        if not sids:
            return [], []
        args = {"channels": list(served)}
        replies = await self._shared.run_all([session_call(Script.PROBE, session_keys(sid), args) for sid in sids])
        still_open, ready, idle, dead = list[str](), list[str](), list[str](), list[str]()
        for sid, got in zip(sids, replies, strict=True):
            if got is None:
                # It stays where it is looked for; who works on it meets what is wrong.
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
                ready.append(sid)
        hints = list[Command]()
        if still_open:
            hints += [("SADD", OPEN, *map(raw, still_open)), *map(self._shared.ready_hint, ready)]
        if dead:
            hints.append(("SADD", LETTERS, *map(raw, dead)))
        if hints:
            await self._shared.connection.commands(*hints)
        return ready, idle

    async def _take_from(self, sid: str, holder: str) -> bool:
        """Free what a process that is gone holds of a session; return whether there is something to do now."""
        args = {"process": holder.partition(".")[0]}
        (got,) = await self._shared.run_all([session_call(Script.RECLAIM_PROCESS, session_keys(sid), args)])
        return got is not None and got.flag("ready")
