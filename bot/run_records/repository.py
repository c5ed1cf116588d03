"""The git repository of run records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import DiskError


class WriterBusyError(DiskError):
    """Another process writes a record at this moment."""

    code = "disk"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the newest commit has it: its two files."""

    document: bytes
    events: bytes


class RecordRepository:
    """Writes records to the repository in a folder, and reads them. Its methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, files: Mapping[str, bytes], message: str, at: int) -> bool:
        """Commit files by their paths; return whether anything changed. `at` is in milliseconds since the epoch.

        Raises WriterBusyError: another process writes. DiskError: it cannot be written now. OperatorError: the folder
        is not one of ours.
        """
        raise NotImplementedError

    def read(self, path: str) -> bytes | None:
        """Return a file as the newest commit has it."""
        raise NotImplementedError

    def find(self, run: str) -> StoredRecord | None:
        """Return the record of a run, wherever it stands."""
        raise NotImplementedError
