"""The recorder of runs: `RunRecorder.record`, when a run ended and when a gap of it did.

The worker sets a RECORD timer (`expect`) before it writes the end of a run or of a gap, and calls `record` behind it.
If it dies between the two, a sweep of timers calls `record` (`due`). A record that stands is not written again.

The repository is a sink with a clearance. It is compared with the run's taint, and with the visibility of the run,
before anything is written, and that is audited. A run above it leaves no trace: no commit, no file, no name. Records
written while it was below stay.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.core.errors import OperatorError, StoreError, WriterBusyError
from bot.core.ids import Ids
from bot.core.json_values import JsonObject
from bot.run_records.document import RunRecord, due_at
from bot.sessions.audit import AuditRow
from bot.sessions.background.runs import Charter, Progress
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from bot.sessions.transcript import backwards
from policy.labels import Label

if TYPE_CHECKING:
    from bot.run_records.writer import RecordWriter

RECORD_AFTER: Final = 30_000
"""Milliseconds after which a sweep of timers writes a record that was expected."""

UNRECORDED: Final = "a run is not recorded yet"
RECORDED: Final = "runs are recorded again"

_TRIES: Final = 40
_PAUSE: Final = 0.05
"""Seconds to wait for another process that writes, each time."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record: where it stands in the repository, its document, and its events.

    `readable` is false where the key is gone with the session: then the sealed parts of both are lost for ever. One
    that is not `here` stands in the repository of another machine, and its content is read from the log.
    """

    path: str
    document: JsonObject
    events: tuple[JsonObject, ...]
    readable: bool
    here: bool = True


class RunRecorder:
    """Records runs in the repository of `folder`, which is cleared for `clearance`; `mask` takes secrets out."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        clearance: Callable[[], Label],
        mask: Callable[[str], str],
        ids: Ids,
    ) -> None:
        self._store = store
        self._folder = folder
        self._clearance = clearance
        self._mask = mask
        self._ids = ids
        self._failing = ""

    async def expect(self, sid: str, now: int) -> Timer:
        """Set the timer that has a run's record written, even if this process ends.

        `now` is in milliseconds on the store's clock. Raises StoreError.
        """
        timer = Timer(TimerKind.RECORD, sid, now + RECORD_AFTER)
        await self._store.schedules.set_timer(timer)
        return timer

    async def record(self, sid: str, timer: Timer | None = None) -> bool:
        """Write the due record of a run, and settle its timer; return whether nothing is left to write.

        Where the repository cannot be written the timer stays, and the log tells. Raises StoreError.
        """
        state = await self._store.sessions.state(sid)
        done = True
        if state is not None and state.charter is not None and state.progress is not None:
            done = await self._tried(state, state.charter, state.progress)
        if done and timer is not None:
            await self._store.schedules.settle(timer)
        return done

    async def due(self, timer: Timer) -> None:
        """Carry out a RECORD timer.

        Raises:
            OperatorError: the repository cannot be written, as the log tells; the timer has to be due again.
            StoreError: the store cannot be used.
        """
        if not await self.record(timer.about):
            raise OperatorError(UNRECORDED, next_step="the log tells why")
        state = await self._store.sessions.state(timer.about)
        if state is not None and state.turn is not None:
            # The end of that turn may be the timer's cause: a clock that went forward makes it due before.
            await self.expect(timer.about, self._store.tokens.now_ms())

    async def found(self, run: str, reader: Label) -> FoundRecord | None:
        """Return the record of a run, None where a reader of the whole repository may be told of none.

        Its labels are not believed: any writer of the folder could change them (law
        `labels_are_never_parsed_from_content`).

        Raises:
            OperatorError: it cannot be read.
            StoreError: the store cannot be used.
        """
        if not self._clearance().flows_to(reader):
            return None
        stored = await asyncio.to_thread(lambda: self._writer().read(run))
        if stored is None:
            return None
        key = await self._store.record_keys.record_key(str(stored.document.get("session", "")))
        told = stored if key is None else await asyncio.to_thread(stored.opened, key)
        return FoundRecord(told.path, told.document, told.events, key is not None)

    async def elsewhere(self, sid: str, reader: Label) -> FoundRecord | None:
        """Return the record of a run that another machine wrote, made again from the run's log.

        None where a reader of the whole repository may be told of none, or no machine wrote one. Raises StoreError.
        """
        clearance, state = self._clearance(), await self._store.sessions.state(sid)
        if state is None or state.charter is None or state.progress is None or not due_at(state.progress):
            return None
        if not (clearance.flows_to(reader) and state.visibility.flows_to(clearance)):
            return None
        # It is made just before the first record is written.
        key = await self._store.record_keys.record_key(sid)
        if key is None:
            return None
        record = await self._made(state, state.charter, state.progress)
        told = await asyncio.to_thread(lambda: self._writer().made(record, key, reader=clearance, mask=self._mask))
        return FoundRecord(told.path, told.document, told.events, readable=True, here=False)

    async def _made(self, state: SessionState, charter: Charter, progress: Progress) -> RunRecord:
        events = [event async for event in backwards(self._store.sessions, state)]
        events.reverse()
        return RunRecord(state, charter, progress, events)

    def _writer(self) -> "RecordWriter":
        # Git and encryption take a third of a second to import; this runs in a thread.
        from bot.run_records.writer import RecordWriter

        return RecordWriter(self._folder)

    async def _tried(self, state: SessionState, charter: Charter, progress: Progress) -> bool:
        """Record a run, and log where that fails; return whether nothing is left to do."""
        try:
            await self._recorded(state, charter, progress)
        except StoreError:
            raise
        except Exception as error:
            # With any cause, the run has ended, and others go on.
            cause = str(error) if isinstance(error, OperatorError) else type(error).__name__
            if self._failing != cause:
                step = error.next_step if isinstance(error, OperatorError) else ""
                facts = {"subject": "run records", "cause": cause, "step": step, "alert": True}
                _LOGGER.warning(UNRECORDED, exc_info=error, extra={**facts, "label": state.visibility})
            self._failing = cause
            return False
        if self._failing:
            _LOGGER.warning(RECORDED)
        self._failing = ""
        return True

    async def _recorded(self, state: SessionState, charter: Charter, progress: Progress) -> None:
        clearance, label = self._clearance(), state.visibility
        if not due_at(progress):
            return
        permitted = label.flows_to(clearance)
        if permitted and await asyncio.to_thread(lambda: self._writer().has(charter.run, state.created_at, progress)):
            return
        body = {"session": state.sid, "run": charter.run, "label": str(label), "clearance": str(clearance)}
        row = AuditRow("recorded", "recorder", {**body, "permitted": permitted})
        await self._store.audit.append_once(row, f"record/{state.sid}/{due_at(progress)}")
        key = await self._store.record_keys.record_key(state.sid, self._ids.record_key()) if permitted else None
        if key is None:
            # Above the repository, or deleted meanwhile.
            return
        record = await self._made(state, charter, progress)
        await self._written(lambda: self._writer().write(record, key, reader=clearance, mask=self._mask))

    async def _written(self, write: Callable[[], bool]) -> None:
        """Write a record, behind other processes that do so. Raises OperatorError: it cannot be written now."""
        for _ in range(_TRIES):
            with suppress(WriterBusyError):
                await asyncio.to_thread(write)
                return
            await asyncio.sleep(_PAUSE)
        await asyncio.to_thread(write)
