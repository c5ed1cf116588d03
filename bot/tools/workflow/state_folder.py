"""The folder of the file root that state files of workflows are in: `agent-output`, with its floor and clearance.

A session's own write over a state file is UNTRUSTED: its tool for workflows is the way to change one.
"""

from collections.abc import Callable
from typing import Final

from bot.access import labelling
from bot.files import locations
from bot.files.locations import FileLocation
from bot.files.port import AbsentError, Found, LabelledFiles, UnusableError
from bot.sessions.refs import WorkflowRef
from bot.workflows.export import ExportedFile, ExportPlace, UnwritableError
from policy.document.model import Document
from policy.labels import PUBLIC, Label

FOLDER: Final = "agent-output"
FOLDERLESS: Final = f"the policy has no folder `{FOLDER}`, so no state file is kept; add it below `policy.folders`"
ABOVE: Final = f"the workflow is above the label of `{FOLDER}`, so it is not exported"

_APART: Final = "untrusted"
"""The folder below a project's for UNTRUSTED files, where the folder itself is not UNTRUSTED."""

_MOST: Final = 16_000_000
"""Bytes of the largest state file that is read or written."""


class StateFolder:
    """Implements the port `StateFiles` on the file root; `document` is the policy in force."""

    def __init__(self, files: LabelledFiles, document: Callable[[], Document]) -> None:
        self._files = files
        self._document = document

    def place(self, project: str, label: Label) -> ExportPlace | str:
        """Return where a workflow that has a label is exported, or why it is not."""
        folder = self._document().folders.get(FOLDER)
        if folder is None:
            return FOLDERLESS
        here = folder.label.join(label)
        if not here.flows_to(folder.clearance or PUBLIC):
            return ABOVE
        return ExportPlace(project, here, apart=here.untrusted and not folder.label.untrusted)

    def path(self, place: ExportPlace, name: str) -> str:
        """Return the path of a file below the file root."""
        return "/".join((FOLDER, *_parts(place, name)))

    def read(self, place: ExportPlace, name: str) -> ExportedFile | None:
        """Return a file, None if there is none. Raises UnwritableError: it cannot be read."""
        try:
            after = self._found(place, name)
            while True:
                found = after
                content = self._files.load(found.place, _MOST)
                ours = all(isinstance(ref, WorkflowRef) for ref in self._files.origin(found))
                owned = self._files.owned(found.place)
                # Another process may write between: label, sources and content are to be of one moment.
                after = self._found(place, name)
                if after == found:
                    break
        except AbsentError:
            return None
        except UnusableError:
            raise UnwritableError from None
        label = found.label if ours else labelling.untrusted(found.label)
        return ExportedFile(content, label, by_person=not owned)

    def swap(
        self, place: ExportPlace, name: str, text: str, expected: ExportedFile | None, *, state: WorkflowRef
    ) -> bool:
        """Write a file if its present content is the expected one. Raises UnwritableError: it cannot be written."""
        before = None if expected is None else expected.content
        content, came = text.encode("utf-8"), (state,)
        if len(content) > _MOST:
            raise UnwritableError
        try:
            return self._files.swap(self._location(place, name), content, place.label, expected=before, refs=came)
        except UnusableError:
            raise UnwritableError from None

    def keep(self, place: ExportPlace, name: str, file: ExportedFile) -> None:
        """Write a file's content under another name, with its label. Raises UnwritableError: it cannot be written."""
        try:
            self._files.keep(self._location(place, name), file.content, place.label.join(file.label))
        except UnusableError:
            raise UnwritableError from None

    def _found(self, place: ExportPlace, name: str) -> Found:
        return self._files.written(self._location(place, name), place.label)

    def _location(self, place: ExportPlace, name: str) -> FileLocation:
        folder = self._document().folders.get(FOLDER)
        return locations.shared(FOLDER, PUBLIC if folder is None else folder.label, *_parts(place, name))


def _parts(place: ExportPlace, name: str) -> tuple[str, ...]:
    return (place.project, _APART, name) if place.apart else (place.project, name)
