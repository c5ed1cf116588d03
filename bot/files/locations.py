"""Paths of files taken apart, independent of the place that keeps them: nothing here touches a disk or a network.

A file that is written at its folder's floor has its own name, as the operator's files have. A file above the floor is
another file of that name: each level with its compartments has a tree of its own beside the floor's. A session that may
not know of a tree meets nothing of it, neither files nor names nor folders (law `no_read_up`).
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from bot.files.areas import Area
from bot.sessions.refs import FileRef
from policy.document.model import Document
from policy.document.reading import WORKSPACE
from policy.errors import nearest
from policy.labels import PUBLIC, Label

_VERSION: Final = 16
"""Hex digits of a version: enough that two never meet by chance."""

_NAME_MAX: Final = 255
"""Bytes of the longest name in a folder, as on most file systems."""


class PathError(ValueError):
    """A path leads nowhere; its text is a constant or names only the caller's own words and configured folders."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A path taken apart.

    Args:
        area: The area that it is in.
        home: The names of the base folder below the area: the folder of the policy, or a session's id and generation.
        parts: The names below the base, none for the base itself.
        floor: The lowest label of data read there.
        tree: The name of the tree above the floor, empty for a file at the floor.
    """

    area: Area
    home: tuple[str, ...]
    parts: tuple[str, ...]
    floor: Label = PUBLIC
    tree: str = ""

    @property
    def workspace(self) -> bool:
        """Whether it is in the workspace of a session."""
        return self.area is Area.SESSIONS

    @property
    def folder(self) -> str:
        """The first part of its path, as sessions write it: a folder of the policy, or the workspace."""
        return WORKSPACE if self.workspace else self.home[0]

    @property
    def name(self) -> str:
        """The path below the base, empty for the base itself."""
        return "/".join(self.parts)

    def above(self, label: Label) -> "FileLocation":
        """Return the file of the same name in the tree of this label's level and compartments."""
        return replace(self, tree=tree_of(label))


def place(path: str, sid: str, generation: int, document: Document) -> FileLocation:
    """Take the path that a session names apart.

    Raises PathError: it is absolute, climbs, has a part that may not be named, or begins with a folder that is not
    configured. The names of the configured ones are public.
    """
    parts = PurePosixPath(path).parts
    if path.startswith("/") or not parts or any(not plain(part) for part in parts):
        raise PathError("a path is relative, without `..`, control characters or names that begin with a dot")
    if parts[0] == WORKSPACE:
        return workspace(sid, generation, *parts[1:])
    folders = document.folders
    if parts[0] not in folders:
        raise PathError(f"there is no folder `{parts[0]}`{nearest(parts[0], (*folders, WORKSPACE))}")
    return shared(parts[0], folders[parts[0]].label, *parts[1:])


def named(path: str, sid: str, generation: int, document: Document) -> FileLocation | None:
    """Return where the path of a file or of an inner folder leads for a session, None for nowhere."""
    try:
        found = place(path, sid, generation, document)
    except PathError:
        return None
    return found if found.parts else None


def shared(folder: str, floor: Label, *parts: str) -> FileLocation:
    """Return a place in a folder of the file root; the parts are names of our own."""
    return FileLocation(Area.SHARED, (folder,), parts, floor)


def workspace(sid: str, generation: int, *parts: str) -> FileLocation:
    """Return a place in the workspace of a session's generation; the parts are names of our own."""
    return FileLocation(Area.SESSIONS, (sid, str(generation)), parts)


def plain(part: str) -> bool:
    """Say whether a name may be that of a file or a folder of sessions."""
    return not part.startswith(".") and part.isprintable() and len(part.encode(errors="replace")) <= _NAME_MAX


def version(location: FileLocation, text: str) -> FileRef:
    """Return the reference to a file as it is with this text: its name where the policy has it, and a digest."""
    return version_of(location, encoded(text))


def version_of(location: FileLocation, content: bytes) -> FileRef:
    """Return the reference to a file as it is with this content."""
    return FileRef(f"{location.folder}/{location.name}", hashlib.sha256(content).hexdigest()[:_VERSION])


def encoded(text: str) -> bytes:
    """Return a text as it is kept: half characters become marks."""
    return text.encode("utf-8", errors="replace")


def secrecy(label: Label) -> str:
    """Return the text of a label's level and compartments, which decide who may know of a file."""
    return str(label).removesuffix("~")


def tree_of(label: Label) -> str:
    """Return the name of the tree of a label's level and compartments."""
    return hashlib.sha256(secrecy(label).encode("ascii")).hexdigest()


def height(label: Label) -> tuple[int, int, str]:
    """Return the sort key of files of one name: a label is never below one that flows to it."""
    return label.level, len(label.compartments), secrecy(label)


class FolderListing:
    """The names in a folder that a reader may know of, gathered from its trees, the lowest tree first.

    Every file of a name is listed. A folder, whose name ends with `/`, is listed once, with its lowest label.
    """

    def __init__(self, reader: Label) -> None:
        self._reader = reader
        self._labels = dict[tuple[str, str], Label]()

    def add(self, name: str, label: Label) -> None:
        """Add a name with its label, unless the reader may not know of it."""
        if label.flows_to(self._reader):
            self._labels.setdefault((name, "" if name.endswith("/") else secrecy(label)), label)

    @property
    def names(self) -> tuple[tuple[str, Label], ...]:
        """The names in order, each with its label."""
        found = ((name, label) for (name, _), label in self._labels.items())
        return tuple(sorted(found, key=lambda one: (one[0], height(one[1]))))
