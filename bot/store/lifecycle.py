"""The part of the store for a session as a whole: pausing, archiving, deleting, and past turns.

Deletion has two steps. One script leaves a tombstone in place of the session's record, so that nothing is written for
the session any more. Then the keys that the script cannot name are searched for: large bodies, and the answers kept for
retries. Until that is done the tombstone says so, and the sweep does it again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio

from bot.core.errors import StoreError, StoreRefusedError
from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import RUN
from bot.sessions.log.event_types import TurnCompleted
from bot.sessions.models import Holder, Status, TurnPage, TurnRecord
from bot.store.background.runs import RedisRuns
from bot.store.calls import Arguments, ScriptAnswer, session_call
from bot.store.programs.webhooks import RedisWebhooks
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.schema import LETTERS, OPEN, READY, session_keys
from bot.store.scripts.loader import Script
from bot.store.servers.connection import WALKED, Reply
from bot.store.session_index import Filing
from bot.store.sessions import refuse_change
from bot.store.shared import SessionChange, Shared
from policy.document.programs import is_program, program_name

STILL_WRITING: Final = "a server is still rewriting its file"
NOT_WRITTEN: Final = "a server could not rewrite its file, its log tells why"

_REWRITE_SECONDS: Final = 30.0
_MOMENT: Final = 0.02
_PAGE: Final = 1000
_RUN_HOME: Final = f"{RUN}:".encode()


class Eraser:
    """Erases the keys that a script that deletes a session cannot name."""

    def __init__(self, shared: Shared, filing: Filing, webhooks: RedisWebhooks, runs: RedisRuns) -> None:
        self._shared = shared
        self._filing = filing
        self._webhooks = webhooks
        self._runs = runs

    async def erase(self, sid: str) -> None:
        """Erase all of a deleted session but its tombstone, its audit chain and the list of its inputs.

        The positions of its program's webhooks in it are forgotten too, and the name of a run's slot.
        """
        keys = session_keys(sid)
        kept = {raw(key) for key in (keys.state, keys.audit, keys.inputs)}
        cursor = b""
        while cursor != WALKED:
            cursor, found = await self._shared.connection.walk(cursor or WALKED, f"{keys.prefix}*", _PAGE)
            if left := [key for key in found if key not in kept]:
                await self._shared.connection.commands(("UNLINK", *left))
        hints = [("ZREM", READY, raw(sid)), ("SREM", LETTERS, raw(sid))]
        await self._shared.connection.commands(*hints)
        await self._filing.refile((sid,))
        fields = codec.stored_fields("principal", "home")
        ((who, home),) = await self._shared.connection.commands(("HMGET", keys.state, *fields))
        if who is not None and is_program(text(who)):
            await self._webhooks.forget_session(program_name(text(who)), sid)
        if who is not None and home is not None and home.startswith(_RUN_HOME):
            await self._runs.forget_slot(text(who), sid)
        await self._shared.run(session_call(Script.ERASED, keys, {}))

    async def erase_again(self, sid: str) -> None:
        """Erase the rest of a session whose deleting process vanished, and have the servers rewrite their files.

        It does not wait for the rewriting, and a server that is rewriting already is not asked again.
        """
        await self.erase(sid)
        with suppress(StoreError):
            await self._shared.connection.everywhere(("BGREWRITEAOF",))


class RedisLifecycle:
    """Implements the port `LifecycleStore`."""

    def __init__(self, shared: Shared, filing: Filing, eraser: Eraser) -> None:
        self._shared = shared
        self._filing = filing
        self._eraser = eraser

    async def holder(self, sid: str) -> Holder | None:
        """Return a session's principal and status, None if there never was one."""
        fields = codec.stored_fields("principal", "status", "updated")
        ((who, status, moved),) = await self._shared.connection.commands(("HMGET", session_keys(sid).state, *fields))
        if who is None or status is None:
            return None
        known = text(status)
        return Holder(text(who), Status(known) if known in set(Status) else None, int(moved or 0))

    async def deleted(self, sids: Sequence[str]) -> frozenset[str]:
        """Return those of these sessions that were deleted."""
        field = codec.stored_fields("status")
        found = await self._shared.connection.commands(*(("HGET", session_keys(sid).state, *field) for sid in sids))
        return frozenset(sid for sid, status in zip(sids, found, strict=True) if status == raw(Status.DELETED))

    async def begun(self, sids: Sequence[str], *, seal: bool = False) -> frozenset[str]:
        """Return those of these ids under which a session ever began."""
        asked = [
            session_call(Script.BEGUN, session_keys(sid), {"seal": seal and place > 0})
            for place, sid in enumerate(sids)
        ]
        told = await self._shared.run_all(asked)
        return frozenset(sid for sid, one in zip(sids, told, strict=True) if one is None or one.word == "ok")

    async def pause(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Pause a session."""
        await self._changed(Script.PAUSE, sid, {"actor": actor}, audit)

    async def resume(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Resume a paused session."""
        got = await self._changed(Script.RESUME, sid, {"actor": actor}, audit)
        await self._shared.mark_ready(sid, got)
        await self._filing.refile((sid,))

    async def archive(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Make a session read-only."""
        args = {"actor": actor, "keep": self._shared.options.keep_ms}
        await self._changed(Script.ARCHIVE, sid, args, audit)
        await self._filing.refile((sid,))

    async def restore(self, sid: str, *, actor: str, audit: tuple[AuditRow, ...]) -> None:
        """Make an archived session writable again."""
        await self._changed(Script.RESTORE, sid, {"actor": actor}, audit)
        await self._filing.refile((sid,))

    async def fail(self, sid: str) -> None:
        """Mark a session as FAILED."""
        await self._shared.run(session_call(Script.FAIL, session_keys(sid), {}))

    async def delete(self, sid: str, audit: tuple[AuditRow, ...]) -> None:
        """Delete a session and erase its content."""
        # From here on the sweep finds it, even if this process dies.
        await self._shared.connection.commands(("SADD", OPEN, raw(sid)))
        await self._changed(Script.DELETE, sid, {"keep": self._shared.options.keep_ms}, audit)
        self._shared.places.pop(sid, None)
        self._shared.marks.deleted(sid)
        await self._eraser.erase(sid)

    async def rewrite(self) -> tuple[str, ...]:
        """Have every server rewrite its file, and wait for it; return the sentences of those that do not."""
        try:
            # A rewrite that began before has the data that was deleted meanwhile.
            if await self._rewritten() is not None:
                await self._shared.connection.everywhere(("BGREWRITEAOF",))
                done = await self._rewritten()
                if done is not None:
                    return () if done else (NOT_WRITTEN,)
        except StoreRefusedError as error:
            return (str(error),)
        return (STILL_WRITING,)

    async def _rewritten(self) -> bool | None:
        """Wait until no server rewrites its file; return whether all could do so last, None if it takes too long."""
        with anyio.move_on_after(_REWRITE_SECONDS):
            while True:
                told = await self._shared.connection.everywhere(("INFO", "persistence"))
                if not any(map(_rewrites, told)):
                    return not any(map(_failed, told))
                await asyncio.sleep(_MOMENT)
        return None

    async def turns(self, sid: str, *, before: int | None = None, limit: int = 50, turn: str | None = None) -> TurnPage:
        """Return the turns that ended before an event, newest first, or the turn with an id."""
        keys = session_keys(sid)
        if before is None:
            (head,) = await self._shared.connection.commands(("HGET", keys.state, *codec.stored_fields("seq")))
            before = int(head or 0) + 1
        got = await self._shared.run(session_call(Script.TURNS, keys, {"before": before, "most": limit, "turn": turn}))
        events = await self._shared.events(keys, got.list("events"))
        found = [
            TurnRecord(event.turn, event.seq, event.ts, event.body)
            for event in events
            if isinstance(event.body, TurnCompleted)
        ]
        return TurnPage(tuple(found), got.number("below") or None)

    async def _changed(self, script: Script, sid: str, args: Arguments, audit: Sequence[AuditRow]) -> ScriptAnswer:
        got = await self._shared.change(SessionChange(script, sid, args, self._shared.ids.op()), audit)
        refuse_change(got)
        return got


def _rewrites(found: tuple[str, Reply]) -> bool:
    """Say whether a server rewrites its file or is about to, by its own report."""
    _, told = found
    return any(f"{name}:1" in told.decode("utf-8", "replace") for name in _REWRITING)


def _failed(found: tuple[str, Reply]) -> bool:
    """Say whether the last rewriting of a server's file failed, by its own report."""
    _, told = found
    return b"aof_last_bgrewrite_status:err" in told


_REWRITING: Final = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
