"""Copying all labelled files from one place that keeps them to another: local folders, a bucket, or a backup's stage.

Nothing is taken away from the source, and no other file at the target is replaced without a word for it. A copy that
was ended at any point is taken up by the next one, which finds the files that are there already. At the end each file
is read back from the target: its bytes, its label and its sources. It blocks: call it from a thread.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import groupby, islice
from typing import Final, TypeVar

from bot.files.kept import KeptFiles, KeptName, StoredFile
from bot.files.locations import FileLocation
from bot.files.port import AbsentError, UnavailableError, UnusableError
from bot.sessions.refs import written

_AT_ONCE: Final = 8
"""Files that are copied at the same time."""

_R = TypeVar("_R")


class CopyFault(StrEnum):
    """The reason why a file is not at the target as it is at the source."""

    UNREADABLE = "unreadable"
    """The source cannot be read."""
    UNWRITABLE = "unwritable"
    """The target cannot take it: a folder has that name, or the name is too long there."""
    DIFFERENT = "different"
    """Another file of that name is at the target."""
    CHANGED = "changed"
    """It was read back with another content, label or source."""


@dataclass(frozen=True, slots=True)
class CopyProblem:
    """A file or folder that was not copied: its path below the place that keeps the files, and the reason."""

    path: str
    fault: CopyFault


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """The outcome of a copy.

    Args:
        files: How many files were written, or would be.
        folders: How many folders, likewise.
        size: The bytes of these files.
        present: How many files and folders were at the target already, alike.
        problems: The files and folders that were not copied.
        extra: The paths that are at the target alone.
    """

    files: int = 0
    folders: int = 0
    size: int = 0
    present: int = 0
    problems: tuple[CopyProblem, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Copied:
    """A name and the digest of its file, or the fault; `wrote` says whether it was, or would be, written.

    One without both is gone meanwhile.
    """

    name: KeptName
    digest: bytes = b""
    size: int = 0
    wrote: bool = False
    fault: CopyFault | None = None


@dataclass(slots=True)
class _Tally:
    """The outcome so far, and the digest of each file."""

    counts: CopiedFiles = CopiedFiles()
    digests: dict[KeptName, bytes] = field(default_factory=dict[KeptName, bytes])
    problems: list[CopyProblem] = field(default_factory=list[CopyProblem])

    def add(self, one: _Copied) -> None:
        counts = self.counts
        if one.fault is not None:
            self.problems.append(CopyProblem(path_of(one.name.place), one.fault))
            self.digests[one.name] = b""
            return
        if not one.digest:
            return
        self.digests[one.name] = one.digest
        if not one.wrote:
            self.counts = replace(counts, present=counts.present + 1)
        elif one.name.folder:
            self.counts = replace(counts, folders=counts.folders + 1)
        else:
            self.counts = replace(counts, files=counts.files + 1, size=counts.size + one.size)


class FileCopier:
    """Copies the files of one place to another."""

    def __init__(self, source: KeptFiles, target: KeptFiles) -> None:
        self._source, self._target = source, target

    def copy(self, *, replaces: bool = False, dry: bool = False) -> CopiedFiles:
        """Copy all files, and read each back.

        Args:
            replaces: Whether another file of the same name at the target is replaced.
            dry: Whether to count only, and write nothing.

        Raises:
            UnavailableError: source or target does not answer.
            UnusableError: the names cannot be listed.
        """
        tally = _Tally()
        for one in _side_by_side(partial(self._copy, replaces=replaces, dry=dry), self._source.kept()):
            tally.add(one)
        if not dry:
            # A place that was filled is none of a first run.
            self._target.begin({})
            whole = [name for name, digest in tally.digests.items() if digest]
            for changed in _side_by_side(partial(self._changed, tally.digests), whole):
                tally.problems += [] if changed is None else [CopyProblem(path_of(changed.place), CopyFault.CHANGED)]
        extra = tuple(path_of(name.place) for name in self._target.kept() if name not in tally.digests)
        return replace(tally.counts, problems=tuple(tally.problems), extra=extra)

    def _copy(self, name: KeptName, *, replaces: bool, dry: bool) -> _Copied:
        """Copy one file or folder. Raises UnavailableError."""
        try:
            stored = self._source.take(name)
        except UnavailableError:
            raise
        except AbsentError:
            return _Copied(name)
        except UnusableError:
            return _Copied(name, fault=CopyFault.UNREADABLE)
        try:
            there = self._there(name)
            if there is not None and there.same(stored):
                return _Copied(name, _digest(stored))
            if there is not None and not replaces:
                return _Copied(name, fault=CopyFault.DIFFERENT)
            if not dry:
                self._target.restore(stored, replaces=replaces)
        except UnavailableError:
            raise
        except UnusableError:
            return _Copied(name, fault=CopyFault.UNWRITABLE)
        return _Copied(name, _digest(stored), len(stored.content or b""), wrote=True)

    def _changed(self, digests: dict[KeptName, bytes], name: KeptName) -> KeptName | None:
        """Read a file back; return its name if it is not as it was copied. Raises UnavailableError."""
        try:
            there = self._there(name)
        except UnavailableError:
            raise
        except UnusableError:
            there = None
        return None if there is not None and _digest(there) == digests[name] else name

    def _there(self, name: KeptName) -> StoredFile | None:
        """Return the file or folder at the target, None for none. Raises UnusableError."""
        try:
            return self._target.take(name)
        except AbsentError:
            return None


def path_of(place: FileLocation) -> str:
    """Return where a file is below the place that keeps it, with its tree above the floor in braces."""
    home = "/".join((place.area, *place.home))
    tree = f"{{{place.tree[:8]}}}" if place.tree else ""
    return "/".join(filter(None, (home, tree, place.name)))


def _digest(stored: StoredFile) -> bytes:
    """Return the digest of a file with its label and its sources."""
    facts = (stored.content is None, str(stored.label), str(stored.tree), written(stored.refs))
    return hashlib.sha256(repr(facts).encode() + (stored.content or b"")).digest()


def _side_by_side(work: Callable[[KeptName], _R], names: Iterable[KeptName]) -> Iterator[_R]:
    """Yield the results of work on all names: files side by side, and a folder before the names after it."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for folders, some in groupby(names, key=lambda name: name.folder):
            if folders:
                yield from map(work, some)
                continue
            while batch := list(islice(some, _AT_ONCE)):
                yield from pool.map(work, batch)
