"""The part of the store that keeps sessions in quarantine."""

import json
from typing import Final

from bot.core.errors import SchemaError
from bot.sessions.audit import AuditRow
from bot.sessions.models import Doing, Quarantined
from bot.store import wire
from bot.store.base import Part
from bot.store.keys import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, QUARANTINE, audit_op, decode, encode
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text

FIRST_MS: Final = 2_000
LONGEST_MS: Final = 3_600_000
"""How long a session is left alone after its first failure, and at most."""


class Quarantining(Part):
    """Implements the port `QuarantineStore`."""

    async def quarantine(
        self, sid: str, doing: Doing, error: str, where: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Quarantined, bool]:
        """Put a session in quarantine, or keep it there."""
        names = [QUARANTINE, AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._ids.op())]
        field = _field(sid, doing)
        before: list[Arg] = [field, raw(error), raw(where), FIRST_MS, LONGEST_MS]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._link.script(Script.QUARANTINE, names, [*before, *rows])

        _, new, record, now, n, digest = await self._chaining(AUDIT, audit, run)
        self._saw_head(AUDIT, (int(n), text(digest)))
        return _decoded(field.encode(), record, int(now)), bool(new)

    async def quarantined(self) -> tuple[Quarantined, ...]:
        """Return all that are in quarantine; what another program put there and this one cannot read is left out."""
        flat, clock = await self._link.commands(("HGETALL", QUARANTINE), ("TIME",))
        found, now = list[Quarantined](), wire.clock_ms(clock)
        for field, record in wire.pairs(flat).items():
            try:
                found.append(_decoded(field, record, now))
            except SchemaError:
                continue
        return tuple(sorted(found, key=lambda one: (one.since, one.sid, one.doing)))

    async def unquarantine(self, sid: str, doing: Doing, audit: tuple[AuditRow, ...]) -> bool:
        """Let a session out."""
        names = [QUARANTINE, AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._ids.op())]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._link.script(Script.UNQUARANTINE, names, [_field(sid, doing), *rows])

        reply = await self._chaining(AUDIT, audit, run)
        if reply[0] == b"none":
            return False
        self._saw_head(AUDIT, (int(reply[1]), text(reply[2])))
        if doing is Doing.WORK:
            await self._link.commands(self._ready_hint(sid))
        return True


def _field(sid: str, doing: Doing) -> str:
    return f"{encode(sid)}/{doing.value}"


def _decoded(field: bytes, record: bytes, now: int) -> Quarantined:
    return wire.reading(lambda: _read(field, record, now))


def _read(field: bytes, record: bytes, now: int) -> Quarantined:
    name, _, doing = text(field).partition("/")
    kept = json.loads(text(record))
    return Quarantined(
        sid=decode(name),
        doing=Doing(doing),
        since=int(kept["since"]),
        tries=int(kept["tries"]),
        error=str(kept["error"]),
        where=str(kept["where"]),
        schema=int(kept["schema"]),
        rest=max(0, int(kept["until"]) - now),
    )
