"""What people do with a session as a whole: let it rest, make it read-only, delete it.

Chat and command line share this. They have found out that the caller may: the session is theirs, or they operate this
installation.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access.session_ids import SessionIds
from bot.core.errors import BusyError, IllegalMoveError, NotFoundError
from bot.delegation.spawn import Spawner
from bot.sessions.audit import AuditRow
from bot.sessions.delegation import SESSION
from bot.sessions.deliveries import DeliveryState
from bot.sessions.models import SessionKind, SessionQuery, SessionState
from bot.sessions.store import Store
from bot.tools.labelled_files import FileRoot
from channels.messages import Address
from policy.labels import Label

GRACE: Final = 5.0
"""Seconds within which a turn that is asked to stop has to end, before its session can be archived."""

GOES_ON: Final = "its chat goes on in another conversation by now"

_MOMENT: Final = 0.05
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted, and what could not be: `children` are the background sessions that went along.

    `sent` tells for each address how many messages were sent there, `handed` for each other session how many it was
    given. `kept` are the sentences of servers that keep their files as they are.
    """

    children: int
    sent: tuple[tuple[str, int], ...]
    handed: tuple[tuple[str, int], ...]
    kept: tuple[str, ...]


class SessionLifecycle:
    """Pauses, archives and deletes sessions.

    `top` returns the highest label of the policy in force. `interrupt` stops a turn that runs in this process, `close`
    edits the copies of a session's questions.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: Store,
        session_ids: SessionIds,
        spawner: Spawner,
        files: FileRoot,
        top: Callable[[], Label],
        interrupt: Callable[[str], None],
        close: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._session_ids = session_ids
        self._spawner = spawner
        self._files = files
        self._top = top
        self._interrupt = interrupt
        self._close = close

    async def pause(self, state: SessionState, actor: str) -> None:
        """Let a session rest. Raises RequestError, StoreError."""
        await self._store.lifecycle.pause(state.sid, actor=actor, audit=_row("paused", actor))

    async def resume(self, state: SessionState, actor: str) -> None:
        """Let a session that rests go on. Raises RequestError, StoreError."""
        await self._store.lifecycle.resume(state.sid, actor=actor, audit=_row("resumed", actor))

    async def archive(self, state: SessionState, actor: str) -> None:
        """Make a session read-only, its open turn and all that it spawned stopped.

        Raises BusyError: its turn did not end in time; it is asked to stop. RequestError, StoreError.
        """
        await self._stop(state, actor)
        await self._ended(state.sid)
        await self._store.lifecycle.archive(state.sid, actor=actor, audit=_row("archived", actor))

    async def restore(self, state: SessionState, actor: str) -> None:
        """Let an archived session be spoken in again, unless its chat went on.

        Raises IllegalMoveError, RequestError, StoreError.
        """
        home = Address.parse(state.home)
        if home.channel != SESSION and not await self._session_ids.reopens(state.sid, home, state.principal):
            raise IllegalMoveError(state.status.value, "idle", because=GOES_ON)
        await self._store.lifecycle.restore(state.sid, actor=actor, audit=_row("restored", actor))

    async def delete(self, state: SessionState, actor: str) -> Deleted:
        """Delete a session and all that it spawned, wherever this installation can reach it. Raises StoreError."""
        await self._stop(state, actor)
        family = [state, *await self._below(state)]
        sent, handed = Counter[str](), Counter[str]()
        for one in family:
            for delivery in await self._store.outbox.deliveries(one.sid):
                if delivery.state in {DeliveryState.SENT, DeliveryState.SENDING, DeliveryState.AMBIGUOUS}:
                    address = Address.parse(delivery.address)
                    if address.channel == SESSION:
                        handed[address.workspace] += 1
                    else:
                        sent[delivery.address] += 1
            await self._delete(one, actor)
        kept = await self._store.lifecycle.rewrite()
        theirs = {one.sid for one in family}
        return Deleted(
            children=len(family) - 1,
            sent=tuple(sorted(sent.items())),
            handed=tuple(sorted((sid, count) for sid, count in handed.items() if sid not in theirs)),
            kept=kept,
        )

    async def _delete(self, state: SessionState, actor: str) -> None:
        await self._store.lifecycle.delete(state.sid, _row("deleted", actor))
        # A turn that runs here could write nothing any more.
        self._interrupt(state.sid)
        home = Address.parse(state.home)
        if home.channel != SESSION:
            await self._store.observed.forget(self._session_ids.first(home))
        await asyncio.to_thread(self._files.forget, state.sid, state.generation + 1)

    async def _stop(self, state: SessionState, actor: str) -> None:
        """Stop a session and all that it spawned, and take their questions back."""
        await self._store.sessions.stop(state.sid, actor=actor)
        self._interrupt(state.sid)
        await self._spawner.stop(state.principal, state.sid, self._top(), interrupt=self._interrupt)
        await self._close(state.sid)

    async def _ended(self, sid: str) -> None:
        """Wait until a session has no open turn, for `GRACE` seconds at most. Raises BusyError, NotFoundError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE
        while True:
            state = await self._store.sessions.state(sid)
            if state is None:
                raise NotFoundError
            if state.turn is None:
                return
            if loop.time() > until:
                raise BusyError
            await asyncio.sleep(_MOMENT)

    async def _below(self, state: SessionState) -> list[SessionState]:
        """Return all that descends from a session, also what ended long ago."""
        every, cursor = list[SessionState](), ""
        while True:
            asked = SessionQuery(
                state.principal, self._top(), cursor=cursor, limit=_PAGE, kind=SessionKind.TASK, archived=True
            )
            page = await self._store.index.listed(asked)
            every += page.sessions
            cursor = page.cursor
            if not cursor:
                break
        found, above = list[SessionState](), {state.sid}
        while more := [one for one in every if one.lineage and one.lineage.parent in above and one not in found]:
            found += more
            above = {one.sid for one in more}
        return found


def told_of(done: Deleted) -> str:
    """Return what was deleted, and what could not be reached, in words."""
    many = "session" if done.children == 1 else "sessions"
    lines = [f"The conversation is deleted, with {done.children} background {many}."]
    if done.sent or done.handed or done.kept:
        lines.append("Not reached:")
    lines += [f"- {count} messages sent to {address}" for address, count in done.sent]
    lines += [f"- {count} messages handed to session {sid}" for sid, count in done.handed]
    lines += [f"- the store's file, until it is rewritten: {why}" for why in done.kept]
    lines.append("Files in shared folders, exports, logs of platforms and backups made before stay as they are.")
    return "\n".join(lines)


def _row(did: str, actor: str) -> tuple[AuditRow, ...]:
    return (AuditRow("session", actor, {"did": did}),)
