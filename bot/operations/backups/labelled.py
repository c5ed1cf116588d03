"""The labelled files of a backup where they are in a bucket, and their return into one.

A backup holds each with its label. A restore first puts all of them into folders beside the data, those of a backup of
local folders too. So they come back wherever the configuration keeps files, and a full disk costs nothing of the
bucket. The bucket's earlier files are copied beside the data before it is emptied. It blocks: call it from a thread.

Two names that a bucket holds side by side may be one on a disk. Names that differ by case alone share their labels
there, and a folder with the name of a file gets another name. So no file of a bucket prevents a restore.
"""

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bot.core.errors import DiskError
from bot.files.kept import KeptFiles, KeptName, StoredFile
from bot.files.local import LocalFiles
from bot.files.locations import FileLocation
from bot.files.port import AbsentError, UnavailableError, UnusableError
from bot.operations.files.copying import CopiedFiles, FileCopier, path_of
from policy.labels import Label

ASIDE: Final = "bucket"
"""The folder beside the earlier files of the data directory that keeps those of the bucket."""

RENAMED: Final = ".folder"
"""The end of the new name of a folder that has the name of a file."""

_PRIVATE: Final = 0o700


def stored_files(bucket: KeptFiles) -> Iterator[StoredFile]:
    """Yield all files of a bucket; one that is deleted meanwhile is none.

    Raises DiskError: one cannot be read.
    """
    names = bucket.kept()
    while True:
        with _told("cannot be listed"):
            name = next(names, None)
        if name is None:
            return
        try:
            with _told(f"cannot be read at `{path_of(name.place)}`"):
                stored = bucket.take(name)
        except AbsentError:
            continue
        yield stored


class ReturnedLabels:
    """Puts the labelled files of a backup back.

    Args:
        stage: The folder in which all files are put back first.
        bucket: The bucket in use, None where files are in the data directory.
        top: Returns the label of a file that does not say its own.
    """

    def __init__(self, stage: Path, bucket: KeptFiles | None, top: Callable[[], Label]) -> None:
        self._stage, self._bucket, self._top = LocalFiles(stage, top), bucket, top
        self._aside: Path | None = None
        self._renamed = set[str]()

    @property
    def renamed(self) -> tuple[str, ...]:
        """The new paths of folders that had the name of a file."""
        return tuple(sorted(self._renamed))

    def held(self) -> bool:
        """Say whether the bucket holds files. Raises DiskError."""
        with _told("cannot be listed"):
            return self._bucket is not None and next(self._bucket.kept(), None) is not None

    def put(self, stored: StoredFile) -> None:
        """Put a file of a bucket into the stage. Raises DiskError."""
        with _told(f"cannot be kept as `{path_of(stored.place)}`"):
            place = _placed(self._stage, stored)
            if stored.content is None and place != stored.place:
                self._renamed.add(path_of(place))

    def set_aside(self, folder: Path) -> bool:
        """Copy the files of the bucket into a folder, and say whether there were any. Raises DiskError."""
        if self._bucket is None or not self.held():
            return False
        with _told("cannot be copied beside the data"):
            folder.mkdir(mode=_PRIVATE, parents=True)
            self._aside = folder
            beside = LocalFiles(folder, self._top)
            for stored in stored_files(self._bucket):
                _placed(beside, stored)
        return True

    def finish(self) -> None:
        """Replace the files of the bucket by those of the stage, which loses them. Raises DiskError."""
        if self._bucket is None:
            return
        with _told("cannot be put into the bucket"):
            self._bucket.clear()
            _require_whole(FileCopier(self._stage, self._bucket).copy())
            self._stage.clear()

    def drop(self) -> None:
        """Remove the copy of the bucket's files, which are still there."""
        if self._aside is not None:
            shutil.rmtree(self._aside.parent, ignore_errors=True)


def _placed(files: LocalFiles, stored: StoredFile) -> FileLocation:
    """Put a file of a bucket into folders, and read it back; return its place.

    Raises UnusableError: it cannot be written, or is not there as it was, under its label or a higher one.
    """
    place = _beside_files(files, stored)
    files.restore(replace(stored, place=place))
    there = files.take(KeptName(place, folder=stored.content is None))
    if there.content != stored.content or not _covers(there.label, stored.label):
        raise UnusableError
    return place


def _beside_files(files: LocalFiles, stored: StoredFile) -> FileLocation:
    """Return the place of a file or folder, with another name for each folder on the way that has that of a file."""
    place, folders = stored.place, len(stored.place.parts) - (stored.content is not None)
    for depth in range(folders):
        above = place.parts[:depth]
        if _is_file(files, replace(place, parts=place.parts[: depth + 1])):
            place = replace(place, parts=(*above, f"{place.parts[depth]}{RENAMED}", *place.parts[depth + 1 :]))
    return place


def _is_file(files: LocalFiles, place: FileLocation) -> bool:
    try:
        files.load(place, 0)
    except AbsentError:
        return False
    except UnusableError:
        # It is larger than that.
        return True
    return True


def _covers(there: Label | None, stored: Label | None) -> bool:
    """Say whether a label is not below the stored one; None is the floor, which both have anyway."""
    return stored is None or (there is not None and stored.flows_to(there))


def _require_whole(done: CopiedFiles) -> None:
    if done.problems:
        told = ", ".join(f"`{one.path}`" for one in done.problems[:5])
        raise DiskError(
            f"{len(done.problems)} files cannot be copied, such as {told}",
            next_step="see that no file and folder have one name, then repeat the command",
        )


@contextmanager
def _told(problem: str) -> Generator[None]:
    try:
        yield
    except UnavailableError as error:
        raise DiskError(str(error), next_step=error.next_step) from None
    except (UnusableError, OSError):
        raise DiskError(f"labelled files {problem}", next_step="make room or mend access, then repeat it") from None
