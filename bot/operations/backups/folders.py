"""The files of a data directory for a backup, and their return.

A file and the label beside it have to be of one moment, or a file could come back below its label. All our writers
replace files and change none, so links to the files of one tree are a copy of it. They are made while its writers wait,
and read at leisure. Where a file system has no links, the files are copied meanwhile. Blocks on the disk: call it from
a thread.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Collection, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from bot.audit.keys import RETIRED
from bot.core.errors import DiskError, OperatorError
from bot.files.disk import alone

SNAPSHOT: Final = ".backup-"
"""The beginning of the name of the folder of links."""

STAGE: Final = ".restoring"
"""The folder in which files are put back, before they are moved to their places."""

BEFORE: Final = ".before-restore-"
"""The beginning of the name of the folder that keeps the earlier files."""

ANCHORS: Final = "anchors"
KEYS_FOLDER: Final = "keys"
_ELSEWHERE: Final = frozenset(
    {"store", KEYS_FOLDER, "ready", "console", "files.new", ANCHORS, f"{ANCHORS}.lock", RETIRED, STAGE}
)
"""The names of other files: those of the store, keys, anchors, and those of processes."""

_BROUGHT: Final = frozenset({ANCHORS, RETIRED})
"""Those of them that a backup holds apart."""

_LABELS: Final = ".labels"
_LATER: Final = "objects"
"""The folder of git that is linked last: a reference to an object is older than the object's copy."""

_PIECE: Final = 1 << 20
_PRIVATE: Final = 0o700
_MODES: Final = 0o755
"""The rights that a file may have when it comes back."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A piece of a file, or a folder: `at` is where the piece begins, None for a folder."""

    path: str
    mode: int
    at: int | None
    content: bytes = b""


class FolderSnapshot:
    """A copy of the files of a data directory, taken once.

    `leaves` are files, and `without` names in the data directory, that are not part of it.
    """

    def __init__(self, data_dir: Path, leaves: Collection[Path], without: Collection[str] = ()) -> None:
        self._data, self._without = data_dir, frozenset(without)
        real = os.path.realpath(data_dir)
        self._leaves = {os.path.relpath(os.path.realpath(path), real) for path in leaves}
        self._place = data_dir / f"{SNAPSHOT}{os.getpid()}"
        self.left_out = 0

    @contextmanager
    def taken(self) -> Generator[None]:
        """Take it, and remove it in the end. Raises DiskError."""
        try:
            _remove_abandoned(self._data)
            self._place.mkdir(mode=_PRIVATE)
            try:
                with _opened(self._place) as to, _opened(self._data) as data:
                    # As long as this process has the lock, no other one takes the folder for an abandoned one.
                    fcntl.flock(to, fcntl.LOCK_EX)
                    for name in _names(data):
                        if not _elsewhere(name) and name not in self._without:
                            self._take(data, to, name)
                    yield
            finally:
                shutil.rmtree(self._place, ignore_errors=True)
        except OSError as error:
            raise DiskError(f"`{error.filename or self._data}` cannot be copied: {error.strerror}") from None

    def pieces(self) -> Iterator[FilePiece]:
        """Yield folders and pieces of files, a folder before its files."""
        yield from self._below(self._place, "")

    def _below(self, folder: Path, name: str) -> Iterator[FilePiece]:
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            path, mode = f"{name}{entry.name}", stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if entry.is_dir(follow_symlinks=False):
                yield FilePiece(path, mode, None)
                yield from self._below(Path(entry.path), f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                with os.fdopen(os.open(entry.path, _READ), "rb") as file:
                    yield from _file_pieces(file, path, mode)
            else:
                # It took the place of a file while that was linked.
                self.left_out += 1

    def _take(self, source: int, to: int, path: str) -> None:
        """Link the last entry of a path, which is in an open folder, and all below it.

        Links and special files are left out and counted. No name is looked up through a link, and an entry that
        vanishes meanwhile is none.
        """
        name = path.rpartition("/")[2]
        status = _status(source, name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            with ExitStack() as until:
                try:
                    here = until.enter_context(_opened(name, source))
                except FileNotFoundError:
                    return
                os.mkdir(name, _PRIVATE, dir_fd=to)
                there = until.enter_context(_opened(name, to))
                self._take_folder(here, there, path)
                os.fchmod(there, stat.S_IMODE(status.st_mode) | _PRIVATE)
        elif stat.S_ISREG(status.st_mode) and path not in self._leaves:
            _linked(source, to, name)
        else:
            self.left_out += 1

    def _take_folder(self, source: int, to: int, path: str) -> None:
        """Link all that is in an open folder; once more if it got its first label meanwhile."""
        while True:
            labelled = _labelled(source)
            with alone(source) if labelled else nullcontext():
                for name in sorted(_names(source), key=lambda name: name == _LATER):
                    self._take(source, to, f"{path}/{name}")
            if labelled or not _labelled(source):
                return
            _emptied(to)


class ReturnedFiles:
    """Puts the files of a backup back: all of them beside the data first, then each in its place.

    `leaves` are files of the data directory that no backup holds; they stay where they are.
    """

    def __init__(self, data_dir: Path, leaves: Collection[Path]) -> None:
        self.data = data_dir
        self._leaves = [path.relative_to(data_dir) for path in leaves]
        self.stage = data_dir / STAGE
        self._spared = frozenset[str]()

    def spare(self, names: Collection[str]) -> None:
        """Leave these names in the data directory as they are: the backup does not hold them."""
        self._spared = frozenset(names)

    def present(self) -> tuple[str, ...]:
        """Return the names in the data directory that a restore would replace."""
        names = [path.name for path in self.data.iterdir()] if self.data.is_dir() else []
        kept = _ELSEWHERE - _BROUGHT | self._spared
        return tuple(sorted(name for name in names if name not in kept and not name.startswith((SNAPSHOT, BEFORE))))

    def begin(self) -> None:
        """Make an empty folder to put them into. Raises DiskError."""
        with _writing(self.data):
            shutil.rmtree(self.stage, ignore_errors=True)
            self.stage.mkdir(mode=_PRIVATE)

    def put(self, piece: FilePiece) -> None:
        """Put a folder or a piece of a file there. Raises DiskError. OperatorError: its path leads elsewhere."""
        parts = piece.path.split("/")
        if not all(parts) or not {".", ".."}.isdisjoint(parts) or "\0" in piece.path:
            raise OperatorError(f"the backup names an impossible path, `{piece.path!r}`")
        if parts[0] not in _BROUGHT and _elsewhere(parts[0]):
            raise OperatorError(f"the backup names a file that no backup holds, `{piece.path!r}`")
        path = self.stage.joinpath(*parts)
        with _writing(self.data):
            if piece.at is None:
                path.mkdir(mode=piece.mode & _MODES | _PRIVATE, exist_ok=True)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, piece.mode & _MODES), "wb") as file:
                file.seek(piece.at)
                file.write(piece.content)

    def finish(self, aside: str) -> None:
        """Move the files to their places; earlier ones go into the folder `aside` of the data directory.

        Raises DiskError.
        """
        with _writing(self.data):
            # Names move to files that are on the disk.
            os.sync()
            present = self.present()
            if present:
                (self.data / aside).mkdir(mode=_PRIVATE, exist_ok=True)
            for name in present:
                (self.data / name).rename(self.data / aside / name)
            for name in sorted(path.name for path in self.stage.iterdir()):
                (self.stage / name).rename(self.data / name)
            for leaf in self._leaves:
                if (old := self.data / aside / leaf).exists():
                    (self.data / leaf).parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
                    old.rename(self.data / leaf)
            self.stage.rmdir()
            os.sync()

    def drop(self) -> None:
        """Remove the files that were put there and not moved."""
        shutil.rmtree(self.stage, ignore_errors=True)


def _elsewhere(name: str) -> bool:
    return name in _ELSEWHERE or name.startswith((SNAPSHOT, BEFORE))


def _file_pieces(file: BinaryIO, path: str, mode: int) -> Iterator[FilePiece]:
    """Yield a file as long as it is now: one that grows without end ends too."""
    at, size = 0, os.fstat(file.fileno()).st_size
    while True:
        content = file.read(min(_PIECE, size - at))
        if content or not at:
            yield FilePiece(path, mode, at, content)
        at += len(content)
        if not content or at >= size:
            return


def _linked(source: int, to: int, name: str) -> None:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=to, follow_symlinks=False)
    except FileNotFoundError:
        # It was a draft of a writer, or was deleted meanwhile.
        if _status(source, name) is not None:
            raise
    except OSError:
        with os.fdopen(os.open(name, _READ, dir_fd=source), "rb") as file:
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE, dir_fd=to)
            with os.fdopen(made, "wb") as copy:
                shutil.copyfileobj(file, copy)
                os.fchmod(made, stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def _status(folder: int, name: str) -> os.stat_result | None:
    """Return the status of an entry of an open folder, None for none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _labelled(folder: int) -> bool:
    status = _status(folder, _LABELS)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _emptied(folder: int) -> None:
    for name in _names(folder):
        status = _status(folder, name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


@contextmanager
def _opened(folder: Path | str, inside: int | None = None) -> Generator[int]:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | (0 if inside is None else os.O_NOFOLLOW), dir_fd=inside)
    try:
        yield number
    finally:
        os.close(number)


def _remove_abandoned(data: Path) -> None:
    """Remove the folders of links of processes that were killed: deleted files would go on in them."""
    for place in data.glob(f"{SNAPSHOT}*"):
        with suppress(FileNotFoundError, BlockingIOError), _opened(place) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"`{error.filename or folder}` cannot be written: {error.strerror}", next_step="make room or mend access"
        ) from None
