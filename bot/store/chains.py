"""The audit part of the store: chains of records, one per session and one for decisions outside any."""

from collections.abc import AsyncIterator

from bot.audit import Head, genesis
from bot.sessions.records import AuditRecord, AuditRow
from bot.store import wire
from bot.store.base import Part
from bot.store.keys import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, audit_op, session_keys, sid_of
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import text


class AuditChains(Part):
    """Implements the port `AuditStore`."""

    async def append(self, rows: tuple[AuditRow, ...]) -> None:
        """Append rows to the chain for decisions outside a session."""
        if not rows:
            return
        names = [AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._ids.op())]

        async def run(audit: list[Arg]) -> list[Reply]:
            return await self._link.script(Script.AUDIT_APPEND, names, audit)

        _, n, digest = await self._chaining(AUDIT, rows, run)
        self._saw_head(AUDIT, (int(n), text(digest)))

    async def records(self, chain: str, *, after: int = 0, limit: int = 1000) -> tuple[AuditRecord, ...]:
        """Return records with n > `after` of a session's chain or of the chain named `audit`."""
        key = AUDIT_CHAIN if chain == AUDIT else session_keys(chain).audit
        # The record before the first is read too: its hash is what the first follows on.
        (found,) = await self._link.commands(("LRANGE", key, max(after - 1, 0), after + limit - 1))
        return wire.reading(lambda: wire.audit_records(found, genesis(chain), after))

    async def head(self, chain: str) -> Head:
        """Return (n, hash) the store believes to be the last record; (0, "") for an empty chain."""
        key = AUDIT_HEAD if chain == AUDIT else session_keys(chain).state
        ((n, digest),) = await self._link.commands(("HMGET", key, "an", "ah"))
        return _head(n, digest)

    async def heads(self) -> AsyncIterator[tuple[str, Head]]:
        """Walk the heads of all chains that are not empty, in no order; for the anchors."""
        outside = await self.head(AUDIT)
        if outside[0]:
            yield AUDIT, outside
        async for page in self._state_pages():
            asked = [("HMGET", key, "an", "ah") for key in page]
            for key, (n, digest) in zip(page, await self._link.commands(*asked), strict=True):
                if n:
                    yield sid_of(key), _head(n, digest)


def _head(n: bytes | None, digest: bytes | None) -> Head:
    return wire.reading(lambda: (int(n or 0), text(digest or b"")))
