"""Folders that tests use for a while."""

from pathlib import Path
from tempfile import TemporaryDirectory


def quick_folder() -> "TemporaryDirectory[str]":
    """Make a folder for a while: in memory where the system has one there, as a store waits for its disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)
