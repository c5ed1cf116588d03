"""The labelled files of a backup where they are in a bucket, and their return into one.

A backup holds each with its label. A restore first puts all of them into folders beside the data, those of a backup of
local folders too. So they come back wherever the configuration keeps files, and a full disk costs nothing of the
bucket. The bucket's earlier files are copied beside the data before it is emptied. It blocks: call it from a thread.
"""

import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bot.core.errors import DiskError
from bot.files.kept import KeptFiles, StoredFile
from bot.files.local import LocalFiles
from bot.files.port import AbsentError, UnavailableError, UnusableError
from bot.operations.files.copying import CopiedFiles, FileCopier, path_of
from policy.labels import Label

ASIDE: Final = "bucket"
"""The folder beside the earlier files of the data directory that keeps those of the bucket."""

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

    def held(self) -> bool:
        """Say whether the bucket holds files. Raises DiskError."""
        with _told("cannot be listed"):
            return self._bucket is not None and next(self._bucket.kept(), None) is not None

    def put(self, stored: StoredFile) -> None:
        """Put a file of a bucket into the stage. Raises DiskError."""
        with _told(f"cannot be kept as `{path_of(stored.place)}`"):
            self._stage.restore(stored)

    def set_aside(self, folder: Path) -> bool:
        """Copy the files of the bucket into a folder, and say whether there were any. Raises DiskError."""
        if self._bucket is None or not self.held():
            return False
        with _told("cannot be copied beside the data"):
            folder.mkdir(mode=_PRIVATE, parents=True)
            self._aside = folder
            _require_whole(FileCopier(self._bucket, LocalFiles(folder, self._top)).copy())
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
