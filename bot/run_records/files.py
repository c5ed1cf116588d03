"""Writing files of a git repository so that each is there as a whole or not at all, also on a disk that is full.

The git library's own writes leave its lock, or a part of a file, where there is no room; so it writes nothing here.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class LockedError(Exception):
    """Another process has git's lock of a file, which is `lock`."""

    def __init__(self, lock: Path) -> None:
        super().__init__(lock)
        self.lock = lock


def written(fresh: Path, content: bytes, name: "str | Path", *, folder: int | None = None) -> None:
    """Write a file as `fresh` and move it to its name, in the folder of a descriptor if one is given.

    Raises OSError: there is no room, or no access; the name then has its old file.
    """
    _filled(fresh, content)
    os.rename(fresh, name, dst_dir_fd=folder)


def replaced(path: Path, make: Callable[[], bytes], folder: Path) -> None:
    """Replace a file by the result of `make`, under git's lock of it, in which `make` reads the present content.

    The lock is a second name of a file in `folder`, where git has its own: so one that a crash left is known as ours,
    and taken. No other process of ours may do so meanwhile.

    Raises:
        LockedError: another process has the lock.
        OSError: as `written`.
    """
    lock, own = path.with_name(f"{path.name}.lock"), folder / f"lockgate.{path.name}"
    with suppress(FileNotFoundError):
        if lock.samefile(own):
            lock.unlink()
    own.unlink(missing_ok=True)
    own.touch(0o600)
    try:
        lock.hardlink_to(own)
    except FileExistsError:
        raise LockedError(lock) from None
    try:
        _filled(lock, make())
        lock.replace(path)
    except BaseException:
        lock.unlink(missing_ok=True)
        raise
    own.unlink()


def _filled(path: Path, content: bytes) -> None:
    descriptor, left = os.open(path, _FLAGS, 0o600), memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
