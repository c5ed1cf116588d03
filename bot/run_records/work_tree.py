"""Showing committed files in the work tree, and in the index of git, without losing other people's changes.

The files of records are the only ones that are touched. A file that another person edited is kept beside the new one,
under a name of its own. In the index the entries of these files alone are replaced, under git's own lock. An index in a
form that is not understood as a whole is left alone.
"""

import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from dulwich.index import (
    ConflictedIndexEntry,
    IndexEntry,
    index_entry_from_stat,
    read_index_dict_with_version,
    write_index_dict,
)
from dulwich.objects import Blob, ObjectID
from dulwich.repo import Repo

from bot.core.errors import DiskError
from bot.run_records.files import replaced, written

_DIGEST: Final = 20
"""Bytes of the checksum at the end of an index."""

_VERSION: Final = 2

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FRESH: Final = "lockgate.new"
"""The name of a temporary file in the folder of git, which is then moved to its place."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file to show: its `content`, which is the object `blob`; `before` is the object committed there before."""

    path: tuple[str, ...]
    content: bytes
    blob: ObjectID
    before: ObjectID | None


def show(repo: Repo, descriptor: int, files: Sequence[ShownFile]) -> None:
    """Write files into the work tree, whose folder `descriptor` is, and note them in the index.

    Raises:
        LockedError: git works on the index.
        OSError: it cannot be written.
        DiskError: it cannot be written.
    """
    told = [(file, _placed(repo, descriptor, file)) for file in files]
    _staged(repo, told)


def _placed(repo: Repo, descriptor: int, file: ShownFile) -> os.stat_result:
    """Write a file in its place; return its status for the index."""
    *folders, name = file.path
    with _below(descriptor, folders) as folder:
        found = _found(folder, name)
        if found != file.blob:
            if found is not None and found != file.before:
                os.rename(name, f"{name}.edited-{found.decode()}", src_dir_fd=folder, dst_dir_fd=folder)
            written(Path(repo.controldir()) / FRESH, file.content, name, folder=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


@contextmanager
def _below(descriptor: int, folders: Iterable[str]) -> Generator[int]:
    """Open a folder below another, made at need; no symbolic link is followed."""
    current = os.dup(descriptor)
    try:
        for name in folders:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=current)
            below = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _found(folder: int, name: str) -> bytes | None:
    """Return git's id of the content at a name, some other word if it is not a file, None for nothing."""
    try:
        known = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(known.st_mode):
        return f"{known.st_ino}".encode()
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        return Blob.from_string(file.read()).id


def _staged(repo: Repo, files: Sequence[tuple[ShownFile, os.stat_result]]) -> None:
    """Replace the entries of files in the index. Raises DiskError: it has a form of which a part would be lost."""
    path = Path(repo.index_path())

    def made() -> bytes:
        version, entries = _read(path)
        for file, known in files:
            entries["/".join(file.path).encode()] = index_entry_from_stat(known, file.blob)
        told = BytesIO()
        # Its extensions are left out: git makes them anew, and those about trees do not hold any more.
        write_index_dict(told, entries, version=version)
        return told.getvalue() + hashlib.sha1(told.getvalue()).digest()  # noqa: S324 - git's own checksum

    # Git's own additions are waited for: the index is read under the lock.
    replaced(path, made, path.parent)


def _read(path: Path) -> tuple[int, dict[bytes, IndexEntry | ConflictedIndexEntry]]:
    """Return the version and the entries of an index. Raises DiskError: it tells more than is understood."""
    if not path.exists():
        return _VERSION, {}
    found = path.read_bytes()
    reading = BytesIO(found)
    entries, version, _ = read_index_dict_with_version(reading)
    if reading.tell() == len(found) - _DIGEST:
        return version, entries
    step = "run `git update-index --no-split-index` and `git sparse-checkout disable` there"
    raise DiskError(f"{path}: the index of git has a form that cannot be changed", next_step=step)
