"""Files with a label beside each: the file root shared by all sessions, and workspaces.

A file the agent wrote has its writer's label in a side file under `.labels`, written and synced before
the text, so that a crash can leave a label too high but never one too low. The label belongs to the
content on this disk, which is why it is not in the store. A file without one was put there by the
operator; its folder's floor, which the tools join in, speaks for it. Symbolic links and `..` are refused.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from bot.tools.base import RefusedCallError, Scene
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, parse
from policy.reading import WORKSPACE

LIMIT: Final = 1_000_000
"""Bytes of the largest text file that is read or written."""

_LABELS: Final = ".labels"
_LOCK: Final = ".lock"
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG})


class AbsentError(Exception):
    """There is nothing, or nothing that may be touched."""


class UnusableError(Exception):
    """It is there and cannot be used: too large, not text, not writable."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path taken apart: the base folder on disk, the policy folder's name, and the parts below the base."""

    base: Path
    folder: str
    parts: tuple[str, ...]
    workspace: bool

    @property
    def name(self) -> str:
        """The path below the base, empty for the base itself."""
        return "/".join(self.parts)


class FileRoot:
    """The shared file root and the sessions' workspaces.

    `shared` and `workspaces` are directories of this machine; `unreadable` is the label of a file whose
    side file is damaged.
    """

    def __init__(self, shared: Path, workspaces: Path, unreadable: Label) -> None:
        self._shared = shared
        self._workspaces = workspaces
        self._unreadable = unreadable

    def place(self, path: str, scene: Scene) -> Place:
        """Take a path apart.

        Raises RefusedCallError: it is absolute, climbs, or has a part that may not be named.
        """
        parts = PurePosixPath(path).parts
        if path.startswith("/") or not parts or any(not _plain(part) for part in parts):
            raise RefusedCallError(
                "a path is relative, without `..`, control characters or names that begin with a dot"
            )
        if parts[0] == WORKSPACE:
            return self.workspace(scene.sid, scene.generation, *parts[1:])
        return Place(self._shared / parts[0], parts[0], parts[1:], workspace=False)

    def workspace(self, sid: str, generation: int, *parts: str) -> Place:
        """Return a place in the workspace of a session's generation; the parts are names of our own."""
        return Place(self._workspaces / sid / str(generation), WORKSPACE, parts, workspace=True)

    def label(self, place: Place) -> Label:
        """Return the label of a file's or folder's writer, PUBLIC where the operator put it.

        Raises AbsentError: there is no such file.
        """
        with _open(place, os.O_RDONLY):
            pass
        return self._stored(place.base, place.parts)

    def read(self, place: Place) -> str:
        """Return a file's text.

        Raises AbsentError: there is no such file. UnusableError: it is not UTF-8 text of at most LIMIT bytes.
        """
        try:
            return self.load(place, LIMIT).decode("utf-8")
        except UnicodeDecodeError:
            raise UnusableError from None

    def load(self, place: Place, most: int) -> bytes:
        """Return what is in a file, of at most `most` bytes.

        Raises AbsentError: there is no such file. UnusableError: it is larger.
        """
        with _open(place, os.O_RDONLY) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor.number).st_mode):
                raise AbsentError
            with os.fdopen(os.dup(descriptor.number), "rb") as file:
                content = file.read(most + 1)
        if len(content) > most:
            raise UnusableError
        return content

    def list(self, place: Place) -> tuple[tuple[str, Label], ...]:
        """Return the names in a folder with their writers' labels; folders end with `/`.

        Raises AbsentError: there is no such folder; a workspace nobody wrote to is empty.
        """
        try:
            with _open(place, os.O_RDONLY | os.O_DIRECTORY) as descriptor, os.scandir(descriptor.number) as entries:
                found = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if _plain(entry.name) and not entry.is_symlink()
                )
        except AbsentError:
            if place.workspace and not place.parts:
                return ()
            raise
        return tuple(
            (f"{name}/" if folder else name, self._stored(place.base, (*place.parts, name))) for name, folder in found
        )

    def write(self, place: Place, text: str, label: Label, *, ceiling: Label, make_base: bool) -> None:
        """Write a text file, as `keep` does.

        Raises UnusableError: it cannot be written, or is larger than LIMIT bytes.
        """
        content = text.encode("utf-8", errors="replace")
        if len(content) > LIMIT:
            raise UnusableError
        self.keep(place, content, label, ceiling=ceiling, make_base=make_base)

    def keep(self, place: Place, content: bytes, label: Label, *, ceiling: Label, make_base: bool) -> None:
        """Write a file whose content has this label, which is joined with the label of what it replaces.

        The label's side file is on disk before the content is, and the names of new folders get it too. What is
        labelled above `ceiling` is not replaced. With `make_base` the base folder is made when it is missing.

        Raises UnusableError: it cannot be written.
        """
        if not place.parts:
            raise UnusableError
        try:
            if make_base:
                place.base.mkdir(parents=True, exist_ok=True)
            folder = Place(place.base, place.folder, (), place.workspace)
            with _open(folder, os.O_RDONLY | os.O_DIRECTORY) as base, _alone(base.number):
                if not self._stored(place.base, place.parts).flows_to(ceiling):
                    raise UnusableError
                for depth in range(1, len(place.parts) + 1):
                    self._keep_label(place, place.parts[:depth], label)
                _write_below(base.number, place.parts, content)
        except (OSError, AbsentError):
            raise UnusableError from None

    def forget(self, sid: str, before: int) -> None:
        """Delete a session's workspaces of generations before this one."""
        home = self._workspaces / sid
        for old in home.iterdir() if home.is_dir() else ():
            if old.name.isdecimal() and int(old.name) < before:
                shutil.rmtree(old, ignore_errors=True)

    def _stored(self, base: Path, parts: tuple[str, ...]) -> Label:
        label = PUBLIC
        for depth in range(1, len(parts) + 1):
            try:
                label = label.join(parse(_side(base, parts[:depth]).read_text(encoding="ascii").strip()))
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError, LabelTextError):
                return self._unreadable
        return label

    def _keep_label(self, place: Place, parts: tuple[str, ...], label: Label) -> None:
        """Join a label into a side file; a folder that exists already keeps the label its name has."""
        if len(parts) < len(place.parts) and place.base.joinpath(*parts).is_dir():
            return
        side = _side(place.base, parts)
        kept = label.join(self._stored(place.base, parts)) if side.exists() else label
        side.parent.mkdir(exist_ok=True)
        fresh = side.with_suffix(".new")
        with fresh.open("w", encoding="ascii") as file:
            file.write(f"{kept}\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(side)


def _plain(part: str) -> bool:
    return not part.startswith(".") and part.isprintable() and len(part.encode(errors="replace")) <= 255  # noqa: PLR2004 - NAME_MAX


def _side(base: Path, parts: tuple[str, ...]) -> Path:
    """Return where a name's label is kept: names that some file system takes for one share it."""
    name = unicodedata.normalize("NFC", unicodedata.normalize("NFD", "/".join(parts)).casefold())
    return base / _LABELS / hashlib.sha256(name.encode(errors="replace")).hexdigest()


class _Descriptor:
    """An open file descriptor that is closed at the end of its block."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


@contextmanager
def _alone(base: int) -> Generator[None]:
    """Keep other writers of an open folder out, those of other processes too: a label is read, joined and replaced."""
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=base)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open(place: Place, flags: int) -> _Descriptor:
    """Open a place part by part without following any link, so that nothing can be swapped in between.

    Raises AbsentError: some part is missing, a link, or not what the flags ask for.
    """
    try:
        current = _Descriptor(os.open(place.base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        for depth, part in enumerate(place.parts, start=1):
            last = depth == len(place.parts)
            with current as parent:
                wanted = (flags if last else os.O_RDONLY | os.O_DIRECTORY) | os.O_NOFOLLOW | os.O_NONBLOCK
                current = _Descriptor(os.open(part, wanted, dir_fd=parent.number))
    except OSError as error:
        if error.errno in _ABSENT:
            raise AbsentError from None
        raise UnusableError from None
    return current


def _write_below(base: int, parts: tuple[str, ...], content: bytes) -> None:
    """Write a file below an open folder, making folders on the way, by writing beside and renaming."""
    current = _Descriptor(os.dup(base))
    for part in parts[:-1]:
        with current as parent:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=parent.number)
            current = _Descriptor(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent.number))
    with current as parent:
        fresh = f".{hashlib.sha256(parts[-1].encode(errors='replace')).hexdigest()[:16]}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=parent.number)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, parts[-1], src_dir_fd=parent.number, dst_dir_fd=parent.number)
