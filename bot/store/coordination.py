"""How the processes of one store work beside one another: wake-ups, rights, counts, sessions in quarantine.

Two hints wake: `lg:ready`, sessions to look at now, and `lg:open`, sessions that may have unfinished work. A sweep
checks every session of `lg:open` and then walks a stretch of the whole store, going on where the last sweep stopped, so
that it costs the same whatever the number of idle sessions, and a session both hints lost is found all the same. On
that walk sessions are also filed where listings look for them. Sessions that may have dead letters are noted on both.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from bot.core.errors import SchemaError, StoreError
from bot.sessions.audit import AuditRow
from bot.sessions.models import Doing, Quarantined
from bot.store.calls import call, session_call
from bot.store.connection import WALKED, Command
from bot.store.lifecycle import Eraser
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import unpack
from bot.store.records.kinds import QUARANTINED
from bot.store.schema import (
    LETTERS,
    OPEN,
    PROCESS,
    QUARANTINE,
    READY,
    STATES,
    count_key,
    count_op,
    decode,
    encode,
    right_key,
    session_keys,
    sid_of,
)
from bot.store.scripts import Script
from bot.store.session_index import Filing
from bot.store.shared import POLICY_ASKED, Shared

_MOST: Final = 64


_PAGE: Final = 500


_BLOCK_SECONDS: Final = 5.0


_WORK: Final = "work"
"""What a probe says of a session that has something to do for who serves its channel."""


_ERASE: Final = "erase"
"""What it says of one that was deleted, and of which something is left."""


_NAME: Final = re.compile(r" name=(\S+)")


class RedisWake:
    """Implements the port `Wake`."""

    def __init__(self, shared: Shared, filing: Filing, eraser: Eraser) -> None:
        self._shared = shared
        self._filing = filing
        self._eraser = eraser
        self._sweep_cursor = WALKED
        self._missing = frozenset[str]()

    async def ready(self, *, wait: float) -> tuple[str, ...]:
        """Return sessions marked ready, waiting up to `wait` seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            # In slices, so that a server that vanished is noticed; 0 would mean for ever.
            slice_ = min(max(deadline - loop.time(), 0.001), _BLOCK_SECONDS)
            command = ("BZMPOP", f"{slice_:.3f}", 1, READY, "MIN", "COUNT", _MOST)
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

    async def sweep(self, channels: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Find sessions with work and no live lease, or with something to send; mark them ready, return them.

        Only what is for these channels, none standing for all: the rest is left to who serves it.
        """
        served = tuple(map(encode, channels))
        found: dict[str, None] = {}
        looked = set[str]()
        gone = await self._gone()
        cursor = b"0"
        while True:
            ((cursor, members),) = await self._shared.connection.commands(("SSCAN", OPEN, cursor, "COUNT", _PAGE))
            sids = [text(member) for member in members]
            looked.update(sids)
            found |= dict.fromkeys(await self._look(sids, gone, served))
            if cursor == b"0":
                break
        loop = asyncio.get_running_loop()
        until = loop.time() + self._shared.options.walk_seconds
        for _ in range(0, self._shared.options.sweep_keys, _PAGE):
            self._sweep_cursor, states = await self._shared.connection.walk(self._sweep_cursor, STATES, _PAGE)
            walked = [sid_of(key) for key in states]
            found |= dict.fromkeys(await self._look([sid for sid in walked if sid not in looked], gone, served))
            await self._filing.refile(walked)
            if self._sweep_cursor == WALKED or loop.time() > until:
                break
        return tuple(found)

    async def _gone(self) -> Callable[[str], bool]:
        """Return a test for processes that had no connection at this sweep and at the one before.

        Their leases need not be waited for. Twice, so that a server's restart, after which everybody connects
        anew, takes nobody's work away; and only if we see ourselves, as behind a proxy nobody would be seen.
        """
        alive = await self._alive()
        missing = self._missing if self._shared.process in alive else frozenset[str]()
        self._missing = frozenset[str]()

        def gone(holder: str) -> bool:
            process = holder.partition(".")[0]
            if not process.startswith(PROCESS) or process in alive or self._shared.process not in alive:
                return False
            self._missing |= {process}
            return process in missing

        return gone

    async def _alive(self) -> set[str]:
        """Return the names of all who are connected to the store."""
        listings = await self._shared.connection.everywhere(("CLIENT", "LIST"))
        return {name for _, listing in listings for line in text(listing).splitlines() for name in _NAME.findall(line)}

    async def _look(self, sids: Sequence[str], gone: Callable[[str], bool], served: Sequence[str]) -> list[str]:
        """Put the hints about sessions right, and return those with something to do."""
        ready, idle = await self._probed(sids, gone, served)
        if idle:
            # Only what has nothing is taken out: who looks for questions meanwhile finds the others.
            taken = await self._shared.connection.commands(*(("SREM", OPEN, raw(sid)) for sid in idle))
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


_RENEWALS: Final = 3
"""How often a lease is renewed within its life."""


class RedisRights:
    """Implements the port `Lease` of `channels.port`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:
        """Wait for a right, hold it while the block runs, and give it back."""
        owner, pause = (
            f"{self._shared.process}.{self._shared.ids.owner()}",
            self._shared.options.right_ms / 1000 / _RENEWALS,
        )
        until = 0.0

        async def renewed() -> bool:
            nonlocal until
            # The lease may end as early as that: it began when the store answered, and not when it was asked.
            begun = self._shared.clock.monotonic()
            with suppress(StoreError):
                if await self._held(name, owner, self._shared.options.right_ms):
                    until = begun + self._shared.options.right_ms / 1000
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
                yield lambda: self._shared.clock.monotonic() < until
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), suppress(StoreError):
                    await self._held(name, owner, 0)

    async def _held(self, name: str, owner: str, life: int) -> bool:
        asked = call(Script.HOLD, {"right": right_key(name)}, {"owner": owner, "life": life})
        return (await self._shared.run(asked)).word == "ok"


class RedisCounts:
    """Implements the port `CountStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def count(self, name: str, life: int) -> int:
        """Count one more."""
        keys = {"count": count_key(name), "op": count_op(name, self._shared.ids.op())}
        return (await self._shared.run(call(Script.COUNT, keys, {"life": life}))).number("count")

    async def keep(self, name: str, life: int) -> None:
        """Let a count go on, or forget it."""
        key = count_key(name)
        await self._shared.connection.commands(("PEXPIRE", key, life) if life else ("UNLINK", key))


FIRST_MS: Final = 2_000


LONGEST_MS: Final = 3_600_000
"""How long a session is left alone after its first failure, and at most."""


class RedisQuarantine:
    """Implements the port `QuarantineStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def add(
        self, sid: str, doing: Doing, *, error: str, where: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Quarantined, bool]:
        """Put a session in quarantine, or keep it there."""
        field = _field(sid, doing)
        args = {"field": field, "error": error, "where": where, "pause": FIRST_MS, "longest": LONGEST_MS}
        got = await self._shared.change_outside(Script.QUARANTINE, {"quarantine": QUARANTINE}, args, audit)
        return _decoded(field.encode(), got.value("record"), got.number("now")), got.flag("new")

    async def quarantined(self) -> tuple[Quarantined, ...]:
        """Return all that are in quarantine; what another program put there and this one cannot read is left out."""
        flat, clock = await self._shared.connection.commands(("HGETALL", QUARANTINE), ("TIME",))
        found, now = list[Quarantined](), codec.clock_ms(clock)
        for field, record in codec.pairs(flat).items():
            try:
                found.append(_decoded(field, record, now))
            except SchemaError:
                continue
        return tuple(sorted(found, key=lambda one: (one.since, one.sid, one.doing)))

    async def unquarantine(self, sid: str, doing: Doing, audit: tuple[AuditRow, ...]) -> bool:
        """Let a session out."""
        args = {"field": _field(sid, doing)}
        got = await self._shared.change_outside(Script.UNQUARANTINE, {"quarantine": QUARANTINE}, args, audit)
        if got.word == "none":
            return False
        if doing is Doing.WORK:
            await self._shared.connection.commands(self._shared.ready_hint(sid))
        return True


def _field(sid: str, doing: Doing) -> str:
    return f"{encode(sid)}/{doing.value}"


def _decoded(field: bytes, record: bytes, now: int) -> Quarantined:
    return codec.reading(lambda: _read(field, record, now))


def _read(field: bytes, record: bytes, now: int) -> Quarantined:
    name, _, doing = text(field).partition("/")
    got = unpack(QUARANTINED, record)
    return Quarantined(
        sid=decode(name),
        doing=Doing(doing),
        since=got["since"],
        tries=got["tries"],
        error=got["error"],
        where=got["where"],
        schema=got["schema"],
        rest=max(0, got["lapses"] - now),
    )
