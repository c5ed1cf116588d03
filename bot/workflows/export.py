"""Writing workflows through to state files, and taking in people's changes there. The store is the truth.

A file has the state that readers of its label may know of: the fold of the events within that label. So a file is one
of those states, the newest or an earlier one whose successor was not written; or another writer changed it. Then it is
taken in if it is valid and as new as the known state. Otherwise it is kept beside and written anew, with an event about
that. A file is compared with the earlier look once more when it is written over.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

from bot.core.errors import FullError
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowStore, WorkflowView
from bot.sessions.refs import WorkflowRef
from bot.sessions.workflows.document import WorkflowDocument
from bot.sessions.workflows.events import (
    FileTakenIn,
    NewWorkflowEvent,
    StateRecovered,
    StepCompleted,
    WorkflowBody,
    WorkflowEvent,
    WorkflowStarted,
)
from bot.sessions.workflows.serialization import kind_of
from bot.workflows.edits import TOO_LARGE, edit_between
from bot.workflows.errors import NewerSchemaError
from bot.workflows.folding import Fold, fold, iso, updated_by, workflow_id
from bot.workflows.state_file import BrokenStateError, handoff, moment, parsed, refuse_newer, rendered
from bot.workflows.views import audit_row, seen_of, state_ref
from policy.labels import Label

_log = logging.getLogger(__name__)

STATE: Final = "00-session-state.json"
HANDOFF: Final = "00-handoff.md"
BAK: Final = f"{STATE}.bak"
BROKEN: Final = f"{STATE}.broken"
"""The file for a text that is not a state, or not a new one."""

NOT_WRITTEN: Final = "the state file could not be written; the state is safe in the store, and is written later"
FULL: Final = f"the changes in the state file did not count, as the log is full; they are kept as {BROKEN}"
FOREIGN: Final = "the state file there is of another workflow of that name; move it away to have this one exported"

_TRIES: Final = 8
_DIGEST: Final = 32
_FILE: Final = "file/"
"""How the calls begin of events about files."""


class UnwritableError(Exception):
    """A file cannot be read or written now."""


@dataclass(frozen=True, slots=True)
class ExportPlace:
    """Where a workflow is exported: its project, and the label that its files have.

    An UNTRUSTED file is `apart`, in a folder that is not UNTRUSTED itself.
    """

    project: str
    label: Label
    apart: bool = False


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file as it is there. `label` is its own, and `by_person` tells that no session can have written it."""

    content: bytes
    label: Label
    by_person: bool

    @property
    def text(self) -> str:
        """Its text; a file that is not UTF-8 is not a state either."""
        return self.content.decode("utf-8", "replace")


class StateFiles(Protocol):
    """Where state files are. The methods block; all but `place` raise UnwritableError."""

    def place(self, project: str, label: Label) -> ExportPlace | str:
        """Return where a workflow that has a label is exported, or why it is not."""
        ...

    def path(self, place: ExportPlace, name: str) -> str:
        """Return the path of a file below the file root."""
        ...

    def read(self, place: ExportPlace, name: str) -> ExportedFile | None:
        """Return a file, None if there is none."""
        ...

    def swap(
        self, place: ExportPlace, name: str, text: str, expected: ExportedFile | None, *, state: WorkflowRef
    ) -> bool:
        """Write a file with a state if the present one is `expected`, keep that as `.bak`, and say whether it was."""
        ...

    def keep(self, place: ExportPlace, name: str, file: ExportedFile) -> None:
        """Write a file's content under another name, with its label."""
        ...


class _Found(StrEnum):
    """The findings about a state file."""

    SAME = "same"
    STALE = "stale"
    EDITED = "edited"
    BROKEN = "broken"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class _Look:
    """A finding, the events about it and their label, and words about it."""

    found: _Found
    bodies: tuple[WorkflowBody, ...] = ()
    label: Label | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """The outcome for a state file.

    `path` is empty where no file is kept. `label` is the label of `note`. `events` are those of the log, also above the
    reader: they are compared with the file.
    """

    path: str = ""
    note: str = ""
    label: Label | None = None
    events: tuple[WorkflowEvent, ...] = ()


class WriteThrough:
    """Keeps state files as the store has the workflows."""

    def __init__(self, store: WorkflowStore, files: StateFiles) -> None:
        self._store = store
        self._files = files
        self._unwritable = False

    async def newer(self, project: str, label: Label, reader: Label) -> NewerSchemaError | None:
        """Return the error about a state file of a newer version that a reader may know of, None if there is none."""
        place = self._files.place(project, label)
        if isinstance(place, str) or not place.label.within(reader):
            return None
        try:
            file = await asyncio.to_thread(self._files.read, place, STATE)
        except UnwritableError:
            return None
        if file is None or not file.label.within(place.label):
            return None
        try:
            refuse_newer(file.text)
        except NewerSchemaError as error:
            return error
        return None

    async def sync(self, log: WorkflowPlace, reader: Label, since: tuple[WorkflowEvent, ...]) -> Exported:
        """Take in the changes that people made to the state file of a workflow, and write the file anew.

        Args:
            log: the workflow, with the label that decides where its file is.
            reader: the highest label of the events that the result shall have.
            since: events of the workflow that the store returned before; they are not read again.

        Raises StoreError. A refusal of the disk is told in the result.
        """
        place = self._files.place(log.project, log.label)
        if isinstance(place, str):
            return Exported(note=place, events=await self._read(log, reader, since))
        try:
            told = await self._synced(log, place, reader, since)
        except UnwritableError:
            if not self._unwritable:
                _log.warning("state files of workflows cannot be written; they are written once they can be")
            self._unwritable = True
            return Exported(note=NOT_WRITTEN, events=await self._read(log, reader, since))
        self._unwritable = False
        return told

    async def _read(
        self, log: WorkflowPlace, reader: Label, since: tuple[WorkflowEvent, ...]
    ) -> tuple[WorkflowEvent, ...]:
        """Return the events within either label, that of a log or that of a reader."""
        return await self._store.log(
            log.principal, log.project, lambda one: one.within(log.label) or one.within(reader), since=since
        )

    async def _synced(
        self, log: WorkflowPlace, place: ExportPlace, reader: Label, since: tuple[WorkflowEvent, ...]
    ) -> Exported:
        principal, path, note, label = log.principal, self._files.path(place, STATE), "", place.label
        for _ in range(_TRIES):
            # The file first: the events of its writer are among those that are read after it.
            file = await asyncio.to_thread(self._files.read, place, STATE)
            scope = place.label if file is None else place.label.join(file.label)
            since = await self._read(replace(log, label=scope), reader, since)
            every = tuple(event for event in since if event.label.within(scope))
            events = tuple(event for event in every if event.label.within(place.label))
            now = fold(principal, place.project, events)
            if now is None:
                return Exported(events=since)
            look = await asyncio.to_thread(partial(self._look, principal, place, file, events, now=now))
            note, label = look.note or note, look.label or label
            if look.found is _Found.LEFT:
                return Exported(note=note, label=place.label, events=since)
            if look.bodies and file is not None and not _is_known(every, look, file, scope):
                if look.found is _Found.BROKEN:
                    await asyncio.to_thread(self._files.keep, place, BROKEN, file)
                try:
                    if not await self._append(replace(log, label=scope), file, look, every):
                        continue
                except FullError:
                    # A state is read and written also where nothing more can be noted of its file.
                    await asyncio.to_thread(self._files.keep, place, BROKEN, file)
                    note = FULL
                since = await self._read(replace(log, label=scope), reader, since)
                events = tuple(event for event in since if event.label.within(place.label))
                now = fold(principal, place.project, events) or now
            if look.found is not _Found.SAME and not await asyncio.to_thread(
                partial(
                    self._files.swap,
                    place,
                    STATE,
                    rendered(now.document),
                    file,
                    state=state_ref(principal, place.project, place.label, len(events)),
                )
            ):
                continue
            await asyncio.to_thread(self._hand_off, principal, place, events, now)
            return Exported(path, note, label, since)
        raise UnwritableError

    async def _append(
        self, log: WorkflowPlace, file: ExportedFile, look: _Look, every: tuple[WorkflowEvent, ...]
    ) -> bool:
        """Add events about a file to the log, with the label of the file; False if another writer came first."""
        label = look.label or log.label
        call = _call(look, file, label, every)
        events = tuple(NewWorkflowEvent(body, actor="", call=call) for body in look.bodies)
        rows = tuple(audit_row(log.principal, log.project, label, body, actor="") for body in look.bodies)
        view = WorkflowView(log.label, seen_of(every))
        return await self._store.advance(replace(log, label=label), view, events, rows) is not None

    def _look(
        self,
        principal: str,
        place: ExportPlace,
        file: ExportedFile | None,
        events: tuple[WorkflowEvent, ...],
        *,
        now: Fold,
    ) -> _Look:
        """Return the finding about a file, where `now` is the fold of the events. It blocks."""
        if file is None:
            return _Look(_Found.STALE)
        if file.text == rendered(now.document):
            return _Look(_Found.SAME)
        try:
            found = parsed(file.text, place.project, now.definition, now.document)
        except NewerSchemaError as error:
            return _left(place, file, f"{error}; {error.next_step}")
        except BrokenStateError as error:
            fresh = not _has_work(events)
            return self._recovered(principal, place, file, now, why=str(error), fresh=fresh)
        if found.workflow not in {"", workflow_id(principal, place.project)}:
            return _left(place, file, FOREIGN)
        earlier = _earlier(principal, place.project, events, found.updated)
        stale = any(rendered(one.document) == file.text for one in earlier)
        return _Look(_Found.STALE) if stale else self._edited(principal, file, events, now=now, found=found)

    def _edited(
        self,
        principal: str,
        file: ExportedFile,
        events: tuple[WorkflowEvent, ...],
        *,
        now: Fold,
        found: WorkflowDocument,
    ) -> _Look:
        """Return the outcome for a changed file, compared with the state that its author began with."""
        base = fold(principal, now.document.project, events[: found.revision]) if found.revision else None
        return _changed(now, base or now, found, file, fresh=not _has_work(events))

    def _recovered(
        self, principal: str, place: ExportPlace, file: ExportedFile, now: Fold, *, why: str, fresh: bool
    ) -> _Look:
        """Return the outcome for a broken file: where nothing was done since the beginning, its `.bak` counts."""
        reason = f"the state file was broken: {why}; it is kept as {BROKEN}"
        told = _Look(_Found.BROKEN, (StateRecovered(reason),), file.label, reason)
        bak = self._files.read(place, BAK) if fresh else None
        try:
            found = None if bak is None else parsed(bak.text, place.project, now.definition, now.document)
        except (BrokenStateError, NewerSchemaError):
            found = None
        if bak is None or found is None or found.workflow not in {"", workflow_id(principal, place.project)}:
            return told
        edit = edit_between(now, found, by_person=bak.by_person and file.by_person)
        if edit.too_large:
            return told
        bodies = (*told.bodies, FileTakenIn(edit.changes)) if edit.changes else told.bodies
        return replace(told, bodies=bodies, label=file.label.join(bak.label), note=f"{reason}, and {BAK} was taken in")

    def _hand_off(self, principal: str, place: ExportPlace, events: tuple[WorkflowEvent, ...], now: Fold) -> None:
        """Write the hand-off of the last gate that was passed, unless it is there. It blocks."""
        ends = [number for number, event in enumerate(events, start=1) if _passes(event.body, now)]
        then = fold(principal, place.project, events[: ends[-1]]) if ends else None
        if then is None:
            return
        text, file = handoff(then.document, then.definition), self._files.read(place, HANDOFF)
        if file is None or file.text != text:
            # Another process that came first wrote the same, or a later one.
            state = state_ref(principal, place.project, place.label, ends[-1])
            self._files.swap(place, HANDOFF, text, file, state=state)


def _changed(now: Fold, base: Fold, found: WorkflowDocument, file: ExportedFile, *, fresh: bool) -> _Look:
    """Return the outcome for a changed file: none where it is older than the work done meanwhile.

    A person's change is the difference from the state that they began with, so that work done meanwhile stays.
    """
    if not fresh and moment(found.updated) < moment(now.document.updated):
        reason = f"the state file was changed, but is older than the state; it is kept as {BROKEN}"
        return _Look(_Found.BROKEN, (StateRecovered(reason),), file.label, reason)
    edit = edit_between(base, found, by_person=file.by_person, now=now)
    if edit.too_large:
        reason = f"{TOO_LARGE}; it is kept as {BROKEN}"
        return _Look(_Found.BROKEN, (StateRecovered(reason),), file.label, reason)
    refused = f"; {' and '.join(edit.refused)} did not count, as people are asked about that" if edit.refused else ""
    note = f"a change of the state file was taken in{refused}" if edit.changes or refused else ""
    bodies = (FileTakenIn(edit.changes),) if edit.changes else ()
    return _Look(_Found.EDITED, bodies, file.label, note)


def _left(place: ExportPlace, file: ExportedFile, why: str) -> _Look:
    """Return that a file is left as it is; one that is above its place, or of anybody, is in nobody's way."""
    if file.label.within(place.label):
        return _Look(_Found.LEFT, note=why)
    reason = f"{why}; it is kept as {BROKEN}"
    return _Look(_Found.BROKEN, (StateRecovered(reason),), file.label, reason)


def _earlier(principal: str, project: str, events: tuple[WorkflowEvent, ...], updated: str) -> Iterator[Fold]:
    """Yield the state before the present one that was made at a time, if there was one."""
    last = 0
    for end, event in enumerate(events[:-1], start=1):
        last = updated_by(last, event)
        if iso(last) == updated and (then := fold(principal, project, events[:end])) is not None:
            yield then


def _has_work(events: tuple[WorkflowEvent, ...]) -> bool:
    """Say whether more happened than that the workflow began."""
    return any(not isinstance(event.body, WorkflowStarted | StateRecovered) for event in events)


def _passes(body: WorkflowBody, now: Fold) -> bool:
    """Say whether an event passes a gate."""
    if not isinstance(body, StepCompleted):
        return False
    step = now.definition.step(body.step)
    return bool(body.passed_by) or (step is not None and step.gate)


def _call(look: _Look, file: ExportedFile, label: Label, every: tuple[WorkflowEvent, ...]) -> str:
    """Return the key that makes the events about a file the same when another process looks at it at once.

    The same bytes are another thing at another label, or when something was found in between.
    """
    return f"{_content(look, file)}/{label}/{sum(event.label == label for event in every)}"


def _is_known(every: tuple[WorkflowEvent, ...], look: _Look, file: ExportedFile, label: Label) -> bool:
    """Say whether the last that was found of a file was just that: then it was not written anew since."""
    found = [event.call for event in every if event.call.startswith(_FILE) and event.label == (look.label or label)]
    return bool(found) and found[-1].startswith(f"{_content(look, file)}/")


def _content(look: _Look, file: ExportedFile) -> str:
    kinds = "+".join(map(kind_of, look.bodies))
    return f"{_FILE}{kinds}/{hashlib.sha256(file.content).hexdigest()[:_DIGEST]}"
