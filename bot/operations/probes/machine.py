"""Measuring the machine: free disk, and the modes of files that hold secrets."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bot.config.model import Config
from bot.operations.diagnostics import Diagnosis

LEAST_FREE: Final = 500_000_000
"""Bytes that are to be free in the data directory."""

OPEN: Final = stat.S_IRWXG | stat.S_IRWXO
"""The rights that nobody but the owner of a secret has."""

_MEGABYTE: Final = 1_000_000


def disk(config: Config, least: int = LEAST_FREE) -> Diagnosis:
    """Look whether `least` bytes are free where data is kept. It blocks."""
    try:
        there = next(one for one in (config.data_dir, *config.data_dir.parents) if one.is_dir())
        free = shutil.disk_usage(there).free
    except (OSError, StopIteration):
        # That is told of the data directory.
        return Diagnosis("disk")
    told = f"{free // _MEGABYTE:,} MB are free in {there}"
    if free < least:
        return Diagnosis("disk", told, "make room there, or move `data_dir` to a larger disk")
    return Diagnosis("disk", note=told)


def secret_files(config: Config) -> Iterator[tuple[Path, int]]:
    """Yield every file and folder that holds secrets, with the mode it is to have. It blocks.

    A folder of keys that is a link is one thing: the files where it leads are not ours.
    """
    keys = config.data_dir / "keys"
    if keys.is_dir():
        yield keys, 0o700
    if keys.is_dir() and not keys.is_symlink():
        yield from ((path, 0o600) for path in sorted(keys.iterdir()) if path.is_file())
    for secret in config.secrets.values():
        if secret.file is not None and (path := config.folder / secret.file).is_file():
            yield path, 0o600


def modes(config: Config) -> list[Diagnosis]:
    """Look whether others may read a file that holds secrets. It blocks."""
    found = [_open(path, wanted) for path, wanted in open_files(config)]
    return found or [Diagnosis("file modes")]


def open_files(config: Config) -> list[tuple[Path, int]]:
    """Return the files and folders with secrets that others may use, with the mode they are to have. It blocks."""
    return [(path, wanted) for path, wanted in secret_files(config) if _mode(path) & OPEN]


def _open(path: Path, wanted: int) -> Diagnosis:
    if path.stat().st_uid != os.getuid():
        return Diagnosis("file modes", f"others may use `{path}`", f"let its owner type `chmod {wanted:o} {path}`")
    step = f"type `chmod {wanted:o} {path}`"
    if not path.is_symlink():
        step += ", or `lockgate doctor --fix`"
    return Diagnosis("file modes", f"others may use `{path}`", step)


def narrow(path: Path, mode: int) -> bool:
    """Give a file or folder a mode unless it is a link, and say whether it was done. It blocks.

    Others may write to its folder: they could have put a link to a foreign file there, also a moment ago.

    Raises OSError: it cannot be changed by this user.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)
    return True


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
