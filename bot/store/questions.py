"""The approvals part of the store: answering what waits, and finding it wherever it waits.

A session that waits for people has an open turn, so the hint `lg:open` names it and the sweep heals that hint. What
it names is read again here, so a wrong hint costs a look and tells nothing.
"""

from collections.abc import Sequence
from contextlib import suppress

from bot.core.errors import NotFoundError, SchemaError
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.models import SessionState
from bot.store import wire, wire_outgoing
from bot.store.base import Part
from bot.store.keys import OPEN, session_keys
from bot.store.link import Arg, Reply
from bot.store.scripts import Script
from bot.store.wire import raw, text

_PAGE = 500


class Questions(Part):
    """The part of the port `SessionStore` that is about approvals."""

    async def resolve(
        self, sid: str, approvals: tuple[str, ...], state: ApprovalState, *, actor: str, audit: tuple[AuditRow, ...]
    ) -> tuple[Approval, ...]:
        """Answer pending approvals once, all in one step, and mark the session ready when none is left."""
        keys = session_keys(sid)

        async def run(rows: list[Arg]) -> list[Reply]:
            names = [keys.state, keys.approvals, keys.audit]
            ids = [len(approvals), *map(raw, approvals)]
            return await self._link.script(Script.RESOLVE, names, [state.value, raw(actor), *ids, *rows])

        reply = await self._chaining(sid, audit, run)
        if reply[0] == b"none":
            raise NotFoundError
        _, ready, n, digest, *records = reply
        self._saw_head(sid, (int(n), text(digest)))
        await self._mark_ready(sid, ready)
        named = list(zip(approvals, records, strict=True))
        return wire.reading(lambda: tuple(wire_outgoing.approval(sid, raw(name), record, 0) for name, record in named))

    async def approvals(self, sid: str) -> tuple[Approval, ...]:
        """Return the approvals of this generation; one past its time reads as EXPIRED."""
        keys = session_keys(sid)
        generation, flat, clock = await self._link.commands(
            ("HGET", keys.state, "gen"), ("HGETALL", keys.approvals), ("TIME",)
        )
        return approvals_of(sid, flat, wire.clock_ms(clock), int(generation or 0))

    async def questions(self) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the pending approvals of all sessions, each with its session's record."""
        found = list[tuple[SessionState, Approval]]()
        cursor = b"0"
        while True:
            ((cursor, members), clock) = await self._link.commands(("SSCAN", OPEN, cursor, "COUNT", _PAGE), ("TIME",))
            found += await self._pending([text(member) for member in members], wire.clock_ms(clock))
            if cursor == b"0":
                # A scan may name a session twice.
                return tuple({(state.sid, approval.id): (state, approval) for state, approval in found}.values())

    async def _pending(self, sids: Sequence[str], now: int) -> list[tuple[SessionState, Approval]]:
        keys = [session_keys(sid) for sid in sids]
        reads = [("HGETALL", key) for one in keys for key in (one.state, one.approvals)]
        replies = await self._link.commands(*reads) if reads else []
        found = list[tuple[SessionState, Approval]]()
        for sid, flat, asked in zip(sids, replies[::2], replies[1::2], strict=True):
            if not flat or not asked:
                continue
            # A record that this program cannot read must not hide the questions of other sessions.
            with suppress(SchemaError):
                state = wire.reading(lambda sid=sid, flat=flat: wire.state(sid, flat))
                every = approvals_of(sid, asked, now, state.generation)
                found += [(state, approval) for approval in every if approval.state is ApprovalState.PENDING]
        return found


def approvals_of(sid: str, flat: Sequence[bytes], now: int, generation: int | None = None) -> tuple[Approval, ...]:
    """Read the approvals of one generation, or of all that are kept; `now` is on the store's clock."""

    def read() -> tuple[Approval, ...]:
        every = (wire_outgoing.approval(sid, name, record, now) for name, record in wire.pairs(flat).items())
        return tuple(approval for approval in every if generation in {None, approval.generation})

    return wire.reading(read)
