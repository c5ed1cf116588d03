"""The backup part of the store: copies of its lasting keys, slot by slot, and their return into an empty store.

The keys of a session are read by one script, so they agree with one another: log, outbox and audit chain are of one
moment. Its log and its audit chain only grow. Where they are long, their values up to that moment are read afterwards,
in pages. Large bodies are written once, before any reference to them, so they are read last. Sessions are not of one
moment with one another. Hints are not copied: they are made anew. Leases, rights and rate limits are of processes that
are gone. Codes of pairings and offers are not copied: each may have been used since.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias, cast

from bot.core.errors import StoreError
from bot.sessions.background.delegation import SESSION
from bot.sessions.models import Status
from bot.sessions.ports.backups import CopiedKey, CopiedUnit, RestedSession
from bot.store.calls import answer, session_call
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import pack_arguments
from bot.store.schema import (
    AUDIT_CHAIN,
    LETTERS,
    OPEN,
    PAIRINGS,
    PROCESS,
    READY,
    READY_POOLS,
    RESTORING,
    encode,
    session_keys,
    sid_of,
)
from bot.store.scripts.loader import Script
from bot.store.servers.connection import WALKED, Reply
from bot.store.session_index import Filing
from bot.store.shared import Shared

_PAGE: Final = 500
_STEP: Final = 200
"""How many values of a growing key are read at once: a value is below 32 KB, with few exceptions."""

_TRIES: Final = 5
_ROUNDS: Final = 3
_EVERYTHING: Final = "lg:*"
_BODIES: Final = "lg:{*}:body:*"
_STATES: Final = "lg:{*}:state"

_TAGGED: Final = re.compile(rb"lg:\{([^}]*)\}:(.*)", re.DOTALL)
_OUTSIDE: Final = frozenset({b"audit", b"vault", b"webhooks", b"budget"})
"""The tags of no session, beside those with a colon."""

_PASSING: Final = (
    *(b"lg:right:", b"lg:sweep:", b"lg:list:", b"lg:past:", b"lg:turned:", b"lg:offer:"),
    *(b"lg:{pace:", b"lg:{rate:"),
)
"""The beginnings of keys that are not copied, beside `_LEFT`; an offer may have been taken since."""

_LEFT: Final = frozenset(
    {
        *(key.encode() for key in (READY, READY_POOLS, OPEN, PAIRINGS, RESTORING)),
        *(b"lg:recent", b"lg:dead", b"lg:{webhooks}:rights"),
    }
)

_Asked: TypeAlias = tuple[str, Sequence[bytes], Sequence[bytes]]
"""A session, empty for none, the keys to copy at one moment, and those of them that only grow."""

_NAME: Final = re.compile(r"(?<= name=)p-\S+")


class RedisBackups:
    """Implements the port `BackupStore`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def copies(self) -> AsyncIterator[CopiedUnit]:
        """Walk copies of all lasting keys; a later unit replaces an earlier one."""
        begun, families = await self.now(), dict[bytes, set[bytes]]()
        async for key in self._walk(_EVERYTHING):
            tag, name = _parted(key)
            if _passing(key, name):
                continue
            if tag and _outside(tag):
                families.setdefault(tag, set()).add(key)
            elif alone := _alone(key, tag, name):
                async for unit in self._unit(*alone):
                    yield unit
        for rest in (self._families(families), self._bodies(), self._ended(begun)):
            async for unit in rest:
                yield unit

    async def _families(self, families: dict[bytes, set[bytes]]) -> AsyncIterator[CopiedUnit]:
        """Copy the keys of each slot of no session, and once more where there came some meanwhile."""
        changed = set(families)
        for _ in range(_ROUNDS):
            for tag in sorted(changed):
                async for unit in self._unit("", sorted(families[tag]), (AUDIT_CHAIN.encode(),)):
                    yield unit
            changed = set[bytes]()
            async for key in self._walk(_EVERYTHING):
                tag, name = _parted(key)
                if tag and _outside(tag) and not _passing(key, name) and key not in families.setdefault(tag, set()):
                    families[tag].add(key)
                    changed.add(tag)
            if not changed:
                return

    async def _bodies(self) -> AsyncIterator[CopiedUnit]:
        """Copy large bodies; one whose session is not there when it is put back is left out."""
        async for key in self._walk(_BODIES):
            tag, _ = _parted(key)
            async for unit in self._unit("", (key,), of=b"lg:{%s}:state" % tag):
                yield unit

    async def _ended(self, begun: int) -> AsyncIterator[CopiedUnit]:
        """Copy sessions once more that were deleted since: nothing of them may come back."""
        fields = codec.stored_fields("status", "updated")
        async for key in self._walk(_STATES):
            ((status, updated),) = await self._shared.connection.commands(("HMGET", key, *fields))
            if status == Status.DELETED.value.encode() and int(updated or 0) >= begun:
                async for unit in self._unit(*_whole(sid_of(key))):
                    yield unit

    async def _walk(self, pattern: str) -> AsyncIterator[bytes]:
        cursor = b""
        while cursor != WALKED:
            cursor, found = await self._shared.connection.walk(cursor or WALKED, pattern, _PAGE)
            for key in found:
                yield key

    async def _unit(
        self, sid: str, names: Sequence[bytes], growing: Sequence[bytes] = (), of: bytes = b""
    ) -> AsyncIterator[CopiedUnit]:
        """Copy keys at one moment, then the values that growing ones had at that moment.

        Raises StoreError: some of these vanished each time before they were read.
        """
        args = pack_arguments({"long": [name for name in names if name in growing], "most": _STEP})
        for _ in range(_TRIES):
            found = await self._shared.connection.script(Script.COPY_KEYS, [text(name) for name in names], [args])
            keys, later = list[CopiedKey](), list[tuple[CopiedKey, int]]()
            for one in found:
                key, count = _copied(names, one)
                keys.append(key)
                if count:
                    later.append((key, count))
            if not keys:
                return
            yield CopiedUnit(sid, tuple(names) if not of else (), tuple(keys), of)
            whole = True
            for key, count in later:
                at = 0
                async for values, length in self._pages(key, count):
                    part = CopiedKey(key.name, key.kind, at, 0, values)
                    yield CopiedUnit("", (), (part,))
                    at += length
                whole = whole and at == count
            if whole:
                return
        raise StoreError("a session changes faster than it can be copied", next_step="make the backup again")

    async def _pages(self, key: CopiedKey, count: int) -> AsyncIterator[tuple[tuple[bytes, ...], int]]:
        """Read the first values of a growing key; return less if it vanishes meanwhile."""
        at, last = 0, b"-"
        while at < count:
            most = min(_STEP, count - at)
            if key.kind == "list":
                asked = ("LRANGE", key.name, at, at + most - 1)
            else:
                asked = ("XRANGE", key.name, last, "+", "COUNT", most)
            (found,) = await self._shared.connection.commands(asked)
            if not found:
                return
            if key.kind != "list":
                last = b"(%s" % found[-1][0]
            at += len(found)
            yield (tuple(found) if key.kind == "list" else _entries(found)), len(found)

    async def now(self) -> int:
        """Return the store's time, in ms."""
        ((seconds, micros),) = await self._shared.connection.commands(("TIME",))
        return int(seconds) * 1000 + int(micros) // 1000

    async def empty(self) -> bool:
        """Say whether the store holds nothing that a backup would copy."""
        async for key in self._walk(_EVERYTHING):
            if not _passing(key, _parted(key)[1]):
                return False
        return True

    async def others(self) -> bool:
        """Say whether other processes are connected."""
        listings = await self._shared.connection.everywhere(("CLIENT", "LIST"))
        names = {name for _, listing in listings for line in text(listing).splitlines() for name in _NAME.findall(line)}
        return bool({name for name in names if name.startswith(PROCESS)} - {self._shared.process})

    async def begin(self) -> bool:
        """Mark the store as incomplete: no process starts on it until `finish`. Say whether it was whole before."""
        asked = (("SET", RESTORING, self._shared.process, "NX"), ("GET", RESTORING))
        _, told = await self._shared.connection.commands(*asked)
        return told == self._shared.process.encode()

    async def clear(self) -> None:
        """Delete everything but that mark."""
        async for key in self._walk(_EVERYTHING):
            if key != RESTORING.encode():
                await self._shared.connection.commands(("UNLINK", key))

    async def put(self, unit: CopiedUnit) -> None:
        """Put a unit back."""
        args = {
            "clears": len(unit.clears),
            "whole": bool(unit.of),
            "kinds": [key.kind for key in unit.keys],
            "at": [key.at for key in unit.keys],
            "expiries": [key.expires for key in unit.keys],
            "values": [list(key.values) for key in unit.keys],
            "lives": [list(key.lives) for key in unit.keys],
        }
        names = [*([unit.of] if unit.of else []), *unit.clears, *(key.name for key in unit.keys)]
        await self._shared.connection.script(Script.PUT_KEYS, list(map(text, names)), [pack_arguments(args)])

    async def rest(self, sid: str) -> RestedSession:
        """Take a returned session out of the hands of the processes of its time, and file it."""
        asked = session_call(Script.REST_RESTORED, session_keys(sid), {"inside": encode(SESSION)})
        got = answer(await self._shared.connection.script(asked.script, asked.keys, asked.args))
        found = RestedSession(got.flag("open"), got.number("waiting"), got.number("doubtful"))
        await self._filing.refile((sid,))
        self._shared.queue.know_by(sid, got)
        hints = [("SADD", OPEN, raw(sid)), ("SADD", LETTERS, raw(sid)), self._shared.ready_hint(sid)]
        await self._shared.connection.commands(*hints)
        return found

    async def finish(self) -> None:
        """Take the mark away."""
        await self._shared.connection.commands(("UNLINK", RESTORING))


def _parted(key: bytes) -> tuple[bytes, bytes]:
    """Return the tag of a key, empty for none, and the rest of its name."""
    found = _TAGGED.fullmatch(key)
    return (b"", key) if found is None else (found[1], found[2])


def _outside(tag: bytes) -> bool:
    return tag in _OUTSIDE or b":" in tag


def _passing(key: bytes, name: bytes) -> bool:
    """Say whether a key is not copied: a hint that is made anew, or one of a process or a retry."""
    return key in _LEFT or key.startswith(_PASSING) or name.startswith((b"op:", b"body:"))


def _alone(key: bytes, tag: bytes, name: bytes) -> _Asked | None:
    """Return the keys to copy when one of them is met, None for a key that is copied with another."""
    if not tag:
        return "", (key,), ()
    if name == b"state":
        return _whole(sid_of(key))
    if name == b"sealed":
        return "", (key,), ()
    return ("", (key, key + b"-ids"), ()) if name == b"observed" else None


def _whole(sid: str) -> _Asked:
    """Return the keys of a session that are of one moment, and those of them that only grow."""
    keys = session_keys(sid)
    names = (
        *(keys.state, keys.log, keys.inbox, keys.inputs, keys.outbox, keys.approvals, keys.audit),
        *(keys.held, keys.held_ids, keys.tasks, keys.notes, keys.record_key),
    )
    return sid, tuple(map(raw, names)), (raw(keys.log), raw(keys.audit))


def _copied(names: Sequence[bytes], found: Sequence[Reply]) -> tuple[CopiedKey, int]:
    """Return a key as a script read it, and how many of its values are read later."""
    place, kind, expires, values, lives, later = cast("tuple[int, bytes, int, list[bytes], list[int], int]", found)
    ends = tuple(max(till, 0) for till in lives)
    return CopiedKey(names[place - 1], text(kind), 0, max(expires, 0), tuple(values), ends), later


def _entries(found: Sequence[Reply]) -> tuple[bytes, ...]:
    """Return the entries of a log, flat: the id, and the one field with its value."""
    return tuple(part for name, (field, value) in found for part in (name, field, value))
