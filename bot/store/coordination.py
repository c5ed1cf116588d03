"""Coordination of the processes of one store: rights, counts, uses, keys in force, and sessions in quarantine."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Final

import anyio

from bot.core.errors import SchemaError, StoreError
from bot.sessions.audit import AuditRow
from bot.sessions.installation.keys import InstallationKeys
from bot.sessions.models import Doing, Quarantined
from bot.sessions.ports.accounts import UseReport
from bot.store.calls import call
from bot.store.records import codec, kinds
from bot.store.records.codec import text
from bot.store.records.form import pack, unpack
from bot.store.schema import INSTALLATION_KEYS, QUARANTINE, count_key, count_op, decode, encode, right_key, uses_key
from bot.store.scripts.loader import Script
from bot.store.servers.connection import Command
from bot.store.shared import Shared

_RENEWALS: Final = 3
"""How often a lease is renewed within its life."""


class RedisRights:
    """Implements the port `Lease` of `channels.port`; `waiting` are the rights that this process waits for."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.waiting = set[str]()

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
            # The lease may end this early: it began when the store answered, and not when it was asked.
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

        try:
            while not await renewed():
                self.waiting.add(name)
                await anyio.sleep(pause)
        finally:
            self.waiting.discard(name)
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
        """Let a count continue, or forget it."""
        key = count_key(name)
        await self._shared.connection.commands(("PEXPIRE", key, life) if life else ("UNLINK", key))


class RedisInstallationKeys:
    """Implements the port `InstallationKeyStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._seen: bytes | None = None

    async def read(self) -> InstallationKeys | None:
        """Return the names of the keys."""
        (found,) = await self._shared.connection.commands(("GET", INSTALLATION_KEYS))
        self._seen = found
        return None if found is None else codec.reading(lambda: _read_keys(found))

    async def put(self, after: InstallationKeys) -> bool:
        """Put others in the place of those that were read last."""
        args = {"names": _written_keys(after), "seen": self._seen}
        got = await self._shared.run(call(Script.AGREE_KEYS, {"names": INSTALLATION_KEYS}, args))
        return got.word == "ok"

    def agree_first(self, agree: Callable[[], Awaitable[None]]) -> None:
        """Have keys agreed on before the first row is signed with them."""
        self._shared.agree = agree

    def bar(self, error: StoreError | None) -> None:
        """Let this process append no row to any audit chain, or let it again."""
        self._shared.barred = error


def _written_keys(keys: InstallationKeys) -> bytes:
    return pack(
        kinds.INSTALLATION_KEYS,
        {
            "audit_keys": " ".join(keys.audit),
            "session_keys": " ".join(keys.session),
            "vault_keys": " ".join(keys.vault),
            "retired_keys": " ".join(sorted(keys.retired)),
            "put_by": keys.place,
        },
    )


def _read_keys(found: bytes) -> InstallationKeys:
    got = unpack(kinds.INSTALLATION_KEYS, found)
    audit, session, vault, retired = (
        tuple(got[name].split()) for name in ("audit_keys", "session_keys", "vault_keys", "retired_keys")
    )
    return InstallationKeys(audit, session, vault, frozenset(retired), got["put_by"])


class RedisUses:
    """Implements the port `UseStore`. A repeated report puts the same numbers there, so it needs no script."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def exchange(self, reports: Sequence[UseReport]) -> tuple[Mapping[str, int], ...]:
        """Keep this process's uses, and return those of other processes."""
        own, asked = f"{self._shared.process}/", list[Command]()
        for report in reports:
            key = uses_key(report.name)
            fields = {f"{own}{slot}": count for slot, count in report.slots.items()}
            if fields:
                asked.append(("HSET", key, *chain.from_iterable(fields.items())))
                asked.append(("HPEXPIRE", key, report.life, "FIELDS", len(fields), *fields))
            asked.append(("HGETALL", key))
        replies = await self._shared.connection.commands(*asked)
        found = [reply for command, reply in zip(asked, replies, strict=True) if command[0] == "HGETALL"]
        return tuple(
            {
                name: int(count)
                for field, count in codec.pairs(flat).items()
                if not (name := text(field)).startswith(own)
            }
            for flat in found
        )


FIRST_MS: Final = 2_000


LONGEST_MS: Final = 3_600_000
"""The first and the longest time that a session is left alone after a failure, in milliseconds."""


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
        """Return all sessions in quarantine; a record of another program that this one cannot read is left out."""
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
    got = unpack(kinds.QUARANTINED, record)
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
