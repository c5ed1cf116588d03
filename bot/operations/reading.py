"""A program's reading of its own sessions: which ones it may know of, and the rows of the audit about its reading.

Absent, another's, above the reader and deleted are one answer (law `no_read_up`). A program that may not know of its
own session any more can still end it, so `own` finds it at any taint. Its answers must then be constant.

A session may rise while it is read. So its content is read first, and its record is looked at once more after that. If
the program may not know of it by then, nothing is returned, see `SessionReader.knowing`.

A program may read a session a thousand times a minute. The audit has one row for each kind of reading in ten minutes,
and another one when the session has risen meanwhile. This holds for all processes together, as the store keeps each row
once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from bot.core.clock import Clock
from bot.core.errors import BusyError, LockgateError, NotFoundError, SchemaError
from bot.core.json_values import JsonObject, mapped_object
from bot.history import event_log
from bot.sessions.audit import AuditRow
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from bot.sessions.visibility import LONGEST_ID, sees
from policy.labels import Label

NOTED_SECONDS: Final = 600.0
"""For how long one row of the audit stands for all readings of a kind; the store keeps answers for as long."""

_NOTED: Final = 4096
"""How many readings a process remembers."""


class ReadingKind(StrEnum):
    """The part of a session that is read: its record and turns, a page or a stream of events, its answer, all of it.

    `QUESTIONS` are its agent's questions to people, and its calls that wait for them; `WEBHOOK` is a sent event,
    `LINEAGE` a trace.
    """

    RECORD = "record"
    EVENTS = "events"
    STREAM = "stream"
    RESULT = "result"
    EXPORT = "export"
    QUESTIONS = "questions"
    WEBHOOK = "webhook"
    LINEAGE = "lineage"


class SessionReader:
    """Finds sessions for programs, and notes in the audit that they were read.

    `masked` takes the values of secrets from a text.
    """

    def __init__(self, store: Store, clock: Clock, masked: Callable[[str], str]) -> None:
        self._store = store
        self._clock = clock
        self._masked = masked
        # The reading that was noted longest ago comes first, with when that was.
        self._noted = OrderedDict[str, float]()

    async def see(self, principal: str, reader: Label, sid: str) -> SessionState:
        """Return the record of a session that a principal, cleared for `reader`, may know of.

        Raises:
            NotFoundError: it is absent, another's, deleted, above the reader, or cannot be read.
            StoreError: the store does not answer.
        """
        state = await self._state(sid)
        if state is None or not sees(state, principal, reader):
            raise NotFoundError
        return state

    @asynccontextmanager
    async def knowing(
        self, principal: str, reader: Label, sid: str, kind: ReadingKind | None = None
    ) -> AsyncGenerator[SessionState]:
        """Yield the record of a session that a principal may know of; findings within the block are returned after it.

        When the block ends, also with an error, the session is looked at once more: the record after the reading
        decides. With a `kind` the reading is noted, and once more if the session has risen.

        Raises:
            NotFoundError: it may not be known of, before or after.
            BusyError: it was reset meanwhile, so that the record tells nothing of the read content.
            StoreError: the store does not answer.
        """
        state = await self._noted_as(principal, await self.see(principal, reader, sid), kind)
        try:
            yield state
        except LockgateError:
            # Why something cannot be done tells of the session, too.
            await self._still(principal, reader, state)
            raise
        await self._noted_as(principal, await self._still(principal, reader, state), kind)

    async def _noted_as(self, principal: str, state: SessionState, kind: ReadingKind | None) -> SessionState:
        if kind is not None:
            await self.noted(principal, state, kind)
        return state

    async def _still(self, principal: str, reader: Label, state: SessionState) -> SessionState:
        now = await self.see(principal, reader, state.sid)
        if now.generation != state.generation:
            raise BusyError
        return now

    async def own(self, principal: str, sid: str) -> SessionState:
        """Return the record of a principal's own session, at any taint; nothing of it may be returned to a program.

        Raises:
            NotFoundError: it is absent, another's, deleted, or cannot be read.
            StoreError: the store does not answer.
        """
        state = await self._state(sid)
        if state is None or state.principal != principal:
            raise NotFoundError
        return state

    async def noted(self, principal: str, state: SessionState, reading: ReadingKind) -> None:
        """Note in the audit that a session is read, before it is; once in ten minutes, and once for each rise.

        Raises:
            StoreError: it cannot be noted, so the session must not be read.
        """
        label = str(state.visibility)
        await self._once(principal, {"session": state.sid, "reading": reading.value, "label": label})

    async def traced(self, principal: str, name: str, label: Label) -> None:
        """Note in the audit that a lineage is read, as `noted` does; `label` is that of the answer.

        Raises:
            StoreError: it cannot be noted, so it must not be returned.
        """
        await self._once(principal, {"traced": name, "reading": ReadingKind.LINEAGE.value, "label": str(label)})

    async def _once(self, principal: str, body: JsonObject) -> None:
        key, now = "\0".join((principal, *map(str, body.values()))), self._clock.monotonic()
        while self._noted and next(iter(self._noted.values())) <= now - NOTED_SECONDS:
            self._noted.popitem(last=False)
        if key in self._noted:
            return
        op = f"read-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
        await self._store.audit.append_once(AuditRow("read", principal, body), op)
        self._noted[key] = now
        self._noted.move_to_end(key)
        if len(self._noted) > _NOTED:
            self._noted.popitem(last=False)

    def told(self, event: Event, reader: Label) -> JsonObject | None:
        """Return an event's body for a program, secrets masked, None for one that it may not know.

        Events that people in a chat do not see are not for programs either: withheld answers, held items, thoughts,
        errors.
        """
        if event.visibility is Visibility.INTERNAL or not event.label.flows_to(reader):
            return None
        return mapped_object(event_log.told_to(event, reader), self._masked)

    async def _state(self, sid: str) -> SessionState | None:
        if len(sid) > LONGEST_ID:
            return None
        try:
            return await self._store.sessions.state(sid)
        except SchemaError:
            # Whose it is cannot be told, so it is as if it were not there.
            return None
