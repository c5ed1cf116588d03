"""Files below an open folder: no name is looked up through a link, and a file is replaced as a whole.

A function returns when its write is on the disk. Symbolic links and `..` lead nowhere.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from bot.files.locations import plain
from bot.files.port import AbsentError, UnusableError

LOCK: Final = ".lock"
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG})


class Descriptor:
    """An open file descriptor that is closed at the end of its block."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        os.close(self.number)


@contextmanager
def alone(base: int) -> Generator[None]:
    """Keep other writers of an open folder out, those of other processes too: a label is read, joined and replaced."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=base)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def opened(base: Path, parts: tuple[str, ...], flags: int) -> Descriptor:
    """Open a file or folder below a base part by part without following any link, so that nothing can be swapped.

    Raises:
        AbsentError: some part is missing, a link, or of another kind than the flags ask for.
        UnusableError: the disk refuses.
    """
    try:
        current = Descriptor(os.open(base, FOLDER))
        for depth, part in enumerate(parts, start=1):
            with current as parent:
                wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK if depth == len(parts) else FOLDER
                current = Descriptor(os.open(part, wanted, dir_fd=parent.number))
    except OSError as error:
        if error.errno in _ABSENT:
            raise AbsentError from None
        raise UnusableError from None
    return current


def exists(base: Path, parts: tuple[str, ...]) -> bool:
    """Say whether something of that name is there, a link too."""
    try:
        with opened(base, parts[:-1], os.O_RDONLY | os.O_DIRECTORY) as folder:
            os.stat(parts[-1], dir_fd=folder.number, follow_symlinks=False)
    except (AbsentError, FileNotFoundError):
        return False
    return True


def plain_names(folder: Descriptor) -> list[str]:
    """Return the names in an open folder that may be told; those of folders end with `/`."""
    with os.scandir(folder.number) as entries:
        return [
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in entries
            if plain(entry.name) and not entry.is_symlink()
        ]


def below(folder: Descriptor, names: tuple[str, ...]) -> Descriptor:
    """Open a folder below an open one, which is closed, making folders on the way."""
    current = folder
    for name in names:
        with current as parent:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent.number)
            current = Descriptor(os.open(name, FOLDER, dir_fd=parent.number))
    return current


def write_below(base: int, parts: tuple[str, ...], content: bytes) -> None:
    """Write a file below an open folder, making folders on the way."""
    with below(Descriptor(os.dup(base)), parts[:-1]) as folder:
        replace_file(folder, parts[-1], content)


def keep_beside(folder: Descriptor, name: str, beside: str) -> None:
    """Keep a file of an open folder under another name too.

    Where a file system has no links, it is gone under its own until the next one is there.
    """
    fresh = f".{hashlib.sha256(beside.encode(errors='replace')).hexdigest()[:16]}.new"
    with suppress(OSError):
        os.link(name, fresh, src_dir_fd=folder.number, dst_dir_fd=folder.number, follow_symlinks=False)
        os.rename(fresh, beside, src_dir_fd=folder.number, dst_dir_fd=folder.number)
        return
    os.rename(name, beside, src_dir_fd=folder.number, dst_dir_fd=folder.number)


def put(folder: Descriptor, name: str, text: str) -> None:
    """Write a line into a file of our own, unless it is there already."""
    content = f"{text}\n".encode("ascii")
    with suppress(OSError), Descriptor(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.number)) as file:
        if os.read(file.number, len(content) + 1) == content:
            return
    replace_file(folder, name, content)


def replace_file(folder: Descriptor, name: str, content: bytes) -> None:
    """Put a file into an open folder by writing beside and renaming; it is on disk when this returns."""
    fresh = f".{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:16]}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder.number), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, name, src_dir_fd=folder.number, dst_dir_fd=folder.number)
    os.fsync(folder.number)
