"""The values of a backup: the facts at its beginning, its counts, and stored keys as frames have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bot.files.kept import StoredFile
from bot.operations.backups.archive import ArchiveFrame
from bot.operations.backups.folders import FilePiece
from bot.sessions.ports.backups import CopiedKey, CopiedUnit

MANIFEST: Final = "manifest"
ANCHORED: Final = "anchors"
CONFIG: Final = "config"
UNIT: Final = "unit"
FILE: Final = "file"
STORED: Final = "stored"
"""A file or folder of a bucket, with its label."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The facts at the beginning of a backup.

    Args:
        made: When it was begun, in ms on the store's clock.
        version: The version of lockgate that made it.
        schema: The version of the store's records.
        policy: The digest of the policy in force.
        keys: The names of the keys that the store needs by their use, the newest first; they tell nothing of the keys.
        missing: The secrets and files that it does not hold, in words.
        files: Whether it holds the file root and the workspaces.
    """

    made: int
    version: str
    schema: int
    policy: str
    keys: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    files: bool = True

    def frame(self) -> ArchiveFrame:
        """Return it as a frame."""
        facts = {"made": self.made, "version": self.version, "schema": self.schema, "policy": self.policy}
        facts["files"] = self.files
        return ArchiveFrame(
            MANIFEST,
            {**facts, "keys": {use: list(names) for use, names in self.keys.items()}, "missing": list(self.missing)},
        )

    @staticmethod
    def read(facts: Mapping[str, Any]) -> "BackupManifest":
        """Read it from a frame's facts."""
        return BackupManifest(
            facts["made"],
            facts["version"],
            facts["schema"],
            facts["policy"],
            {use: tuple(names) for use, names in facts["keys"].items()},
            tuple(facts["missing"]),
            facts["files"],
        )


@dataclass(frozen=True, slots=True)
class BackupCounts:
    """How much a backup holds."""

    sessions: int = 0
    keys: int = 0
    files: int = 0

    def facts(self) -> dict[str, int]:
        """Return them by name."""
        return {"sessions": self.sessions, "keys": self.keys, "files": self.files}

    def plus(self, frame: ArchiveFrame) -> "BackupCounts":
        """Return them with the content of one more frame."""
        if frame.kind == FILE:
            whole = frame.facts["at"] == 0
            return BackupCounts(self.sessions, self.keys, self.files + whole)
        if frame.kind == STORED:
            return BackupCounts(self.sessions, self.keys, self.files + (frame.facts["content"] is not None))
        if frame.kind == UNIT:
            unit = unit_of(frame)
            # A further part of a key is no other key.
            keys = sum(not key.at for key in unit.keys) if unit.clears or unit.of else 0
            return BackupCounts(self.sessions + bool(unit.sid), self.keys + keys, self.files)
        return self


def unit_frame(unit: CopiedUnit) -> ArchiveFrame:
    """Return stored keys as a frame."""
    keys = [[key.name, key.kind, key.at, key.expires, list(key.values), list(key.lives)] for key in unit.keys]
    sid = unit.sid.encode("utf-8", "surrogatepass")
    return ArchiveFrame(UNIT, {"sid": sid, "of": unit.of, "clears": list(unit.clears), "keys": keys})


def unit_of(frame: ArchiveFrame) -> CopiedUnit:
    """Return the stored keys of a frame."""
    keys = tuple(
        CopiedKey(name, kind, at, expires, tuple(values), tuple(lives))
        for name, kind, at, expires, values, lives in frame.facts["keys"]
    )
    sid = frame.facts["sid"].decode("utf-8", "surrogatepass")
    return CopiedUnit(sid, tuple(frame.facts["clears"]), keys, frame.facts["of"])


def file_frame(piece: FilePiece) -> ArchiveFrame:
    """Return a piece of a file, or a folder, as a frame; names are bytes, as the disk has them."""
    path = piece.path.encode("utf-8", "surrogateescape")
    return ArchiveFrame(FILE, {"path": path, "mode": piece.mode, "at": piece.at, "content": piece.content})


def piece_of(frame: ArchiveFrame) -> FilePiece:
    """Return the piece of a file of a frame."""
    facts = frame.facts
    return FilePiece(facts["path"].decode("utf-8", "surrogateescape"), facts["mode"], facts["at"], facts["content"])


def stored_frame(stored: StoredFile) -> ArchiveFrame:
    """Return a file or folder of a bucket as a frame."""
    return ArchiveFrame(STORED, stored.facts())


def stored_of(frame: ArchiveFrame) -> StoredFile:
    """Return the file or folder of a frame."""
    return StoredFile.of(frame.facts)
