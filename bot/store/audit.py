"""The audit part of the store: chains of records, one for each session and one for all other decisions."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from bot.audit.chain import Head, genesis
from bot.core.errors import SchemaError
from bot.sessions.audit import AuditRecord, AuditRow
from bot.store.records import codec
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, audit_op, session_keys, sid_of
from bot.store.scripts.loader import Script
from bot.store.shared import Shared

_HEAD: Final = codec.stored_fields("audit_seq", "audit_hash")

_TOGETHER: Final = 200
"""The most rows that one script appends: it blocks the store meanwhile."""


@dataclass(eq=False, slots=True)
class _Entry:
    """Rows on their way into the chain. `error` is why they are not in it, though it was `tried`."""

    rows: tuple[AuditRow, ...]
    tried: bool = False
    error: Exception | None = None


class RedisAudit:
    """Implements the port `AuditStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._entries = list[_Entry]()
        self._appending = asyncio.Lock()

    async def append(self, rows: tuple[AuditRow, ...]) -> None:
        """Append rows to the chain for decisions outside a session.

        Rows that wait meanwhile are written together: all writers share the turns of a few scripts.
        """
        if not rows:
            return
        mine = _Entry(rows)
        self._entries.append(mine)
        try:
            while not mine.tried:
                async with self._appending:
                    await self._append_waiting()
        except asyncio.CancelledError:
            if mine in self._entries:
                self._entries.remove(mine)
            raise
        if mine.error is not None:
            raise mine.error

    async def append_once(self, row: AuditRow, op: str) -> None:
        """Append a row there, unless one was appended under `op` within the last ten minutes, by any process."""
        await self._shared.change_outside(Script.AUDIT_APPEND, {"op": audit_op(op)}, {}, (row,))

    async def _append_waiting(self) -> None:
        """Append waiting rows, as far as one script may take them. An error counts for all of these."""
        together = list[_Entry]()
        while self._entries and (not together or _rows(together) + len(self._entries[0].rows) <= _TOGETHER):
            together.append(self._entries.pop(0))
        if not together:
            return
        rows = tuple(row for one in together for row in one.rows)
        # A writer that is cancelled here may be writing for others.
        with anyio.CancelScope(shield=True):
            try:
                await self._shared.change_outside(Script.AUDIT_APPEND, {}, {}, rows)
            except Exception as error:  # noqa: BLE001 - each whose rows they are raises it
                for one in together:
                    one.error = error
            for one in together:
                one.tried = True

    async def records(self, chain: str, *, after: int = 0, limit: int = 1000) -> tuple[AuditRecord, ...]:
        """Return records with n > `after` of a session's chain or of the chain named `audit`."""
        key = AUDIT_CHAIN if chain == AUDIT else session_keys(chain).audit
        # The record before the first is read too: the first follows its hash.
        (found,) = await self._shared.connection.commands(("LRANGE", key, max(after - 1, 0), after + limit - 1))
        return codec.reading(lambda: codec.audit_records(found, genesis(chain), after))

    async def head(self, chain: str) -> Head:
        """Return (n, hash) the store believes to be the last record; (0, "") for an empty chain."""
        key = AUDIT_HEAD if chain == AUDIT else session_keys(chain).state
        ((n, digest),) = await self._shared.connection.commands(("HMGET", key, *_HEAD))
        return _head(n, digest)

    def moved(self) -> Mapping[str, Head]:
        """Return the heads that this process wrote or read since they were last `anchored`."""
        return dict(self._shared.moved)

    def anchored(self, heads: Mapping[str, Head]) -> None:
        """Note that heads are kept outside the store; a head that moved meanwhile is still to be."""
        self._shared.moved = {chain: head for chain, head in self._shared.moved.items() if heads.get(chain) != head}

    async def heads(self, *, idly: bool = False) -> AsyncIterator[tuple[str, Head]]:
        """Walk the heads of all chains that are not empty, in no order; `idly` walks slowly, for background use."""
        ((n, digest),) = await self._shared.connection.commands(("HMGET", AUDIT_HEAD, *_HEAD))
        outside = _readable(n, digest) if n else None
        if outside is not None:
            yield AUDIT, outside
        async for page in self._shared.state_pages(idly=idly):
            asked = [("HMGET", key, *_HEAD) for key in page]
            for key, (n, digest) in zip(page, await self._shared.connection.commands(*asked), strict=True):
                head = _readable(n, digest) if n else None
                if head is not None:
                    yield sid_of(key), head


def _readable(n: bytes, digest: bytes | None) -> Head | None:
    """Return a head, None for an unreadable one: the anchors of other chains do not wait for it."""
    try:
        return _head(n, digest)
    except SchemaError:
        return None


def _rows(entries: Sequence[_Entry]) -> int:
    return sum(len(entry.rows) for entry in entries)


def _head(n: bytes | None, digest: bytes | None) -> Head:
    return codec.reading(lambda: codec.head(n, digest))
