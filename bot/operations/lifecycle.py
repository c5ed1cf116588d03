"""Operations on a session as a whole: pause it, make it read-only, delete it.

Chat and command line share this. They have found out that the caller may: the session is theirs, or they operate this
installation.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bot.access.labelling import CONFIGURED
from bot.access.session_ids import SessionIds
from bot.core.errors import BusyError, IllegalMoveError, NotFoundError
from bot.delegation.spawn import Spawner
from bot.files.port import LabelledFiles
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.models import Doing, SessionKind, SessionQuery, SessionState, Status
from bot.sessions.ports.store import Store
from channels.messages import Address
from policy.document.reading import API
from policy.labels import Label, join_all

GRACE: Final = 5.0
"""Seconds within which a turn that is asked to stop has to end, before its session can be archived."""

GOES_ON: Final = "its chat goes on in another conversation by now"

NOWHERE: Final = "no chat leads to it; it is there to be read"
"""Of one that was imported."""

WORKSPACE_LEFT: Final = "- files of its workspace that could not be erased; the next start tries again"

_GIVEN: Final = frozenset({DeliveryState.SENT, DeliveryState.SENDING, DeliveryState.AMBIGUOUS})

ELSEWHERE: Final = "other chats"

_EVERY: Final = 2**53
"""More generations than a session has."""

_MOMENT: Final = 0.05
_PAGE: Final = 200
_REST: Final = 9


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deleted sessions, and the copies beyond reach: `children` are the background sessions that went along.

    `sent` tells for each address how many messages were sent there lately, an empty one standing for other chats, and
    `handed` for each other session how many it was given. `kept` are the sentences of servers that keep their files as
    they are, and `files` says whether something of a workspace is left. `label` is the label of all this. `known` tells
    that the reader may know of the session itself.
    """

    known: bool
    label: Label
    children: int
    sent: tuple[tuple[str, int], ...]
    handed: tuple[tuple[str, int], ...]
    kept: tuple[str, ...]
    files: bool


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
        files: LabelledFiles,
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

    async def cancel(self, state: SessionState, actor: str, *, typed: Label) -> None:
        """Stop the open turn of a session and all its background sessions, and cancel the waiting messages.

        `typed` is the label of the command. Raises StoreError.
        """
        await self._stop(state, actor, typed)

    async def pause(self, state: SessionState, actor: str) -> None:
        """Let a session rest. Raises RequestError, StoreError."""
        await self._store.lifecycle.pause(state.sid, actor=actor, audit=_row("paused", actor))

    async def resume(self, state: SessionState, actor: str) -> None:
        """Resume a paused session. Raises RequestError, StoreError."""
        await self._store.lifecycle.resume(state.sid, actor=actor, audit=_row("resumed", actor))

    async def archive(self, state: SessionState, actor: str) -> None:
        """Make a session read-only, its open turn and all that it spawned stopped.

        Raises BusyError: its turn did not end in time; it is asked to stop. RequestError, StoreError.
        """
        await self._stop(state, actor, self._top())
        await self._ended(state.sid)
        await self._store.lifecycle.archive(state.sid, actor=actor, audit=_row("archived", actor))
        if state.status is not Status.ARCHIVED:
            await self._unheard(state)

    async def restore(self, state: SessionState, actor: str) -> None:
        """Let an archived session be spoken in again, unless its chat went on, or none ever led to it.

        Raises IllegalMoveError, RequestError, StoreError.
        """
        home = Address.parse(state.home)
        if home.channel not in UNREAD:
            follower = await self._session_ids.follower(state.sid, home, state.principal)
            if follower is None or await self._store.lifecycle.holder(follower) is not None:
                because = NOWHERE if follower is None else GOES_ON
                raise IllegalMoveError(state.status.value, Status.IDLE.value, because=because)
        await self._store.lifecycle.restore(state.sid, actor=actor, audit=_row("restored", actor))

    async def delete(self, state: SessionState, actor: str, *, reader: Label, typed: Label) -> Deleted:
        """Delete a session and all that it spawned, wherever this installation can reach it.

        The result tells nothing that `reader` does not cover; `typed` is the label of the command. The lowest go first:
        after a crash the session is still there, to be deleted again. Raises StoreError.
        """
        await self._stop(state, actor, typed)
        family, told, left = [*reversed(await self._below(state)), state], list[Delivery](), set[str]()
        known = list[SessionState]()
        for one in family:
            given = await self._handed_out(one, reader)
            if given is not None:
                known.append(one)
                told += given
            await self._close(one.sid)
            left |= await self._delete(one, actor)
        # A turn in another process may have spawned one until just now.
        while late := await self._below(state):
            for one in reversed(late):
                left |= await self._delete(one, actor)
            family += late
            known += [one for one in late if one.visibility.flows_to(reader)]
        kept = await self._store.lifecycle.rewrite()
        theirs = {one.sid for one in family}
        sent, handed = Counter[str](), Counter[str]()
        for delivery in told:
            address = Address.parse(delivery.address)
            if address.channel == API:
                # A program reads its messages in the log, so no copy is there.
                continue
            if address.channel != SESSION:
                # Who knows of nothing that is configured knows of no chat but the own one, such as an approver's.
                named = delivery.address == state.home or CONFIGURED.flows_to(reader)
                sent[delivery.address if named else ""] += 1
            elif address.chat not in theirs:
                handed[address.chat] += 1
        return Deleted(
            known=state in known,
            label=join_all((*(one.visibility for one in known), *(delivery.label for delivery in told))),
            children=sum(one is not state for one in known),
            sent=tuple(sorted(sent.items(), key=lambda one: (not one[0], one[0]))),
            handed=tuple(sorted(handed.items())),
            kept=kept,
            files=any(one.sid in left for one in known),
        )

    async def _handed_out(self, state: SessionState, reader: Label) -> list[Delivery] | None:
        """Return the recent deliveries of a session, as far as a reader may know of that (law `no_read_up`).

        None if they may not know of the session: its record is looked at after that, as it may have risen meanwhile.
        """
        deliveries = await self._store.outbox.deliveries(state.sid)
        now = await self._store.sessions.state(state.sid)
        if now is None or now.generation != state.generation or not now.visibility.flows_to(reader):
            return None
        return [one for one in deliveries if one.state in _GIVEN and one.label.flows_to(reader)]

    async def _delete(self, state: SessionState, actor: str) -> set[str]:
        """Delete a session; return its id if something of its workspace is left here."""
        # Before as well, for a crash between the two: a deleted session is not looked for any more.
        await asyncio.to_thread(self._files.forget, state.sid, state.generation + 1)
        await self._store.lifecycle.delete(state.sid, _row("deleted", actor))
        for doing in Doing:
            # It would rest there for ever: nobody works it any more.
            row = AuditRow("released", actor, {"session": state.sid, "doing": doing.value})
            await self._store.quarantine.unquarantine(state.sid, doing, (row,))
        # A turn that runs here could write nothing any more.
        self._interrupt(state.sid)
        await self._unheard(state)
        gone = await asyncio.to_thread(self._files.forget, state.sid, state.generation + 1)
        return set() if gone else {state.sid}

    async def _unheard(self, state: SessionState) -> None:
        """Forget the observed messages in the chat of a session: the next session there begins with nothing."""
        home = Address.parse(state.home)
        if home.channel not in UNREAD:
            for sid in self._session_ids.every(home):
                await self._store.observed.forget(sid)

    async def clear(self) -> None:
        """Erase the workspaces on this machine of sessions that were deleted, by another machine or before a crash.

        It looks at few at once, and pauses nine times as long as it worked: every process does so as it begins, when
        people wait for their first answers.

        Raises StoreError.
        """
        every, loop = await asyncio.to_thread(self._files.sessions), asyncio.get_running_loop()
        while True:
            begun = loop.time()
            page = await asyncio.to_thread(lambda: tuple(islice(every, _PAGE)))
            for sid in await self._store.lifecycle.deleted(page) if page else ():
                await asyncio.to_thread(self._files.forget, sid, _EVERY)
            if len(page) < _PAGE:
                return
            await asyncio.sleep(_REST * (loop.time() - begun))

    async def _stop(self, state: SessionState, actor: str, typed: Label) -> None:
        """Stop a session and all that it spawned, and take their questions back."""
        await self._store.sessions.stop(state.sid, actor=actor)
        self._interrupt(state.sid)
        await self._spawner.stop(state.principal, state.sid, typed, interrupt=self._interrupt)
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
        """Return all descendants of a session, also those that ended long ago."""
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
    """Return the deletion, and the copies beyond reach, in words."""
    many = "session" if done.children == 1 else "sessions"
    lines = [f"The conversation is deleted, with {done.children} background {many}."]
    if done.sent or done.handed or done.kept or done.files:
        lines.append("Not reached:")
    lines += [f"- messages sent to {f'`{place}`' if place else ELSEWHERE}: {count}" for place, count in done.sent]
    lines += [f"- messages handed to session {sid}: {count}" for sid, count in done.handed]
    lines += [WORKSPACE_LEFT] if done.files else []
    lines += [f"- the store's file, until it is rewritten: {why}" for why in done.kept]
    lines.append("Messages sent before yesterday, shared files, exports, logs and backups stay as they are.")
    return "\n".join(lines)


def _row(did: str, actor: str) -> tuple[AuditRow, ...]:
    return (AuditRow("session", actor, {"did": did}),)
