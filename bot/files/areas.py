"""The two areas that keep files, and the file root of a first run. It imports nothing of ours: every start needs it."""

import fcntl
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o700


class Area(StrEnum):
    """The two areas that keep files, by the name that each has where they are kept."""

    SHARED = "files"
    """The file root that all sessions share."""
    SESSIONS = "session-files"
    """The workspaces of sessions."""


def begin_root(data_dir: Path, files: Mapping[str, str]) -> None:
    """Make the file root of a data directory with these texts, by their paths in it, unless there is one.

    A root that was emptied is still there. Several processes may do so at once.

    Raises OSError: it cannot be written.
    """
    root = data_dir / Area.SHARED
    if os.path.lexists(root):
        return
    folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not os.path.lexists(root):
            _put(data_dir / f"{Area.SHARED}.new", files).rename(root)
    finally:
        os.close(folder)


def _put(folder: Path, files: Mapping[str, str]) -> Path:
    """Write texts into a folder, which a crash may have left half-written; return it."""
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
