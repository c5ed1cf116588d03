"""Writing the record of a run into the repository, and reading one from it: all of this belongs in a thread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.core.json_values import JsonObject
from bot.run_records.document import (
    FOLDER,
    RunRecord,
    document,
    due_at,
    event_lines,
    headline,
    opened,
    parsed,
    paths,
    tells,
)
from bot.run_records.encryption import RecordCipher
from bot.run_records.repository import RecordRepository
from bot.sessions.background.runs import Progress
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the repository has it, sealed: its document's path, that document, and its events."""

    path: str
    document: JsonObject
    events: tuple[JsonObject, ...]

    def opened(self, key: bytes) -> "StoredRecord":
        """Return it with the parts sealed under a key decrypted; a part that the key does not open is null."""
        cipher = RecordCipher(key)
        events = tuple(opened(event, cipher) for event in self.events)
        return StoredRecord(self.path, opened(self.document, cipher), events)


class RecordWriter:
    """Writes and reads records in the repository of a folder.

    Its methods raise OperatorError: the folder cannot be used, DiskError if only now, WriterBusyError if another
    process writes.
    """

    def __init__(self, folder: Path) -> None:
        self._repository = RecordRepository(folder)

    def has(self, run: str, started_at: int, progress: Progress) -> bool:
        """Say whether the record of a run covers its present progress."""
        return tells(self._repository.read(paths(run, started_at).document), progress)

    def write(self, record: RunRecord, key: bytes, *, reader: Label, mask: Callable[[str], str]) -> bool:
        """Write a record, in one commit, unless there is one that covers the same; return whether it was written.

        `key` seals the words, and `reader` is the highest label that may be written there.
        """
        run, started_at = record.charter.run, record.state.created_at
        where, cipher = paths(run, started_at), RecordCipher(key)

        def make(before: bytes | None) -> Mapping[str, bytes]:
            if not due_at(record.progress) or tells(before, record.progress):
                return {}
            lines = "".join(event_lines(record, reader, cipher, mask))
            return {where.document: document(record, cipher, mask).encode(), where.events: lines.encode()}

        message = headline(run, record.progress)
        return self._repository.commit(where.document, make, message=message, at=due_at(record.progress))

    @staticmethod
    def made(record: RunRecord, key: bytes, *, reader: Label, mask: Callable[[str], str]) -> StoredRecord:
        """Return a record as `write` writes it and `read` reads it, opened, without the repository."""
        cipher, where = RecordCipher(key), paths(record.charter.run, record.state.created_at)
        lines = tuple(parsed(line.encode()) for line in event_lines(record, reader, cipher, mask))
        return StoredRecord(where.document, parsed(document(record, cipher, mask).encode()), lines).opened(key)

    def read(self, run: str) -> StoredRecord | None:
        """Return the record of a run, None if it has none."""
        path = self._repository.find(FOLDER, f"{run}.json")
        told = path and self._repository.read(path)
        if not path or not told:
            return None
        lines = self._repository.read(f"{path}l") or b""
        return StoredRecord(path, parsed(told), tuple(map(parsed, lines.splitlines())))
