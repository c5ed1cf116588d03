"""Making a backup while processes work: the store's keys, the files of the data directory, anchors and configuration.

Anchors are read first, so they are never newer than the chains beside them. Files are read last, so that everything is
there that a session's log names. No key and no secret is in it; it says which ones it lacks.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio

from bot.audit.keys import RETIRED
from bot.config.model import Config
from bot.core.errors import DiskError, OperatorError
from bot.files.areas import Area
from bot.files.kept import KeptFiles
from bot.operations.backups.archive import ArchiveFrame, ArchiveWriter
from bot.operations.backups.folders import ANCHORS, KEYS_FOLDER, FilePiece, FolderSnapshot
from bot.operations.backups.labelled import stored_files
from bot.operations.backups.values import (
    ANCHORED,
    CONFIG,
    BackupCounts,
    BackupManifest,
    file_frame,
    stored_frame,
    unit_frame,
)
from bot.sessions.audit import AuditRow
from bot.sessions.models import SCHEMA
from bot.sessions.ports.store import Store

KEYS: Final = "keys: {} (copy `keys/` or their variables apart from this file)"
_HELD: Final = "the secret `{}`, which is in {}"
VARIABLES: Final = "variables of the environment, such as tokens of platforms and keys of models"
FILES: Final = "files and workspaces, as was asked for"
UNUSED: Final = "the folders `files` and `session-files`, as files are in the bucket"
RECORDS: Final = "records of runs, which are in `{}`"
PLUGINS: Final = "the code of plugins"


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """A backup that was made; `left_out` are the links and special files that it leaves out."""

    counts: BackupCounts
    digest: str
    left_out: int
    manifest: BackupManifest


class BackupMaker:
    """Makes backups.

    Args:
        store: The store.
        config: The configuration.
        key: The audit key.
        names: The names of all keys that the store needs, by their use.
        bucket: The bucket that keeps files, None where they are in the data directory.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        key: bytes,
        names: Mapping[str, tuple[str, ...]],
        bucket: KeptFiles | None,
    ) -> None:
        self._store, self._config = store, config
        self._key, self._names = key, names
        self._bucket = bucket

    async def make(self, path: Path, actor: str, policy: str, *, files: bool = True) -> MadeBackup:
        """Write a backup into a new file, readable by its owner alone, and audit it.

        Args:
            path: The new file.
            actor: The principal who asks for it.
            policy: The digest of the policy in force.
            files: Whether it holds the file root and the workspaces.

        Raises:
            OperatorError: the file is there already, or its place is in the data directory.
            DiskError: something cannot be read or written.
            StoreError: the store cannot be read.
        """
        leaves = await asyncio.to_thread(secret_files, self._config)
        await asyncio.to_thread(_outside, path, self._config.data_dir)
        without = () if files and self._bucket is None else tuple(Area)
        snapshot = await asyncio.to_thread(FolderSnapshot, self._config.data_dir, leaves, without)
        program = await asyncio.to_thread(version, "lockgate")
        manifest = BackupManifest(
            await self._store.backups.now(),
            program,
            SCHEMA,
            policy,
            self._names,
            tuple(self._missing(files=files)),
            files,
        )
        writer = await asyncio.to_thread(ArchiveWriter, path, self._key)
        try:
            counts = BackupCounts()
            first = [manifest.frame(), *await asyncio.to_thread(_small_files, self._config)]
            await asyncio.to_thread(_write, writer, first)
            async for unit in self._store.backups.copies():
                frame = unit_frame(unit)
                counts = counts.plus(frame)
                await asyncio.to_thread(writer.write, frame)
            counts = await asyncio.to_thread(_write_files, writer, snapshot, counts)
            if files and self._bucket is not None:
                counts = await asyncio.to_thread(_write_labelled, writer, self._bucket, counts)
            digest = await asyncio.to_thread(writer.finish, counts.facts())
        finally:
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(writer.close)
        told = {"backup": digest, "made": manifest.made, **counts.facts()}
        await self._store.audit.append((AuditRow("backup", actor, told),))
        return MadeBackup(counts, digest, snapshot.left_out - len(leaves), manifest)

    def _missing(self, *, files: bool) -> Iterator[str]:
        """Yield the secrets and files that the backup does not hold, in words."""
        yield KEYS.format(", ".join(f"{use} {' and '.join(names)}" for use, names in self._names.items()))
        for name, secret in self._config.secrets.items():
            yield _HELD.format(name, f"the file `{secret.file}`" if secret.file else f"the variable {secret.env}")
        yield VARIABLES
        if not files:
            yield FILES
        elif self._bucket is not None and (self._config.data_dir / Area.SHARED).exists():
            yield UNUSED
        if self._config.runs.records.folder is not None:
            yield RECORDS.format(self._config.runs.records.folder)
        if self._config.plugins:
            yield PLUGINS


def secret_files(config: Config) -> tuple[Path, ...]:
    """Return the files in the data directory with a secret of the configuration, which no backup holds. It blocks."""
    data = config.data_dir
    named = [config.folder / one.file for one in config.secrets.values() if one.file is not None]
    # A way through links leads there too.
    real = data.resolve()
    ends = [path.resolve() for path in named]
    inside = [data / path.relative_to(real) for path in ends if path.is_relative_to(real)]
    inside += [Path(os.path.normpath(path)) for path in named]
    found = {path for path in inside if path.is_relative_to(data) and path.is_file()}
    return tuple(sorted(path for path in found if path.relative_to(data).parts[0] != KEYS_FOLDER))


def _outside(path: Path, data_dir: Path) -> None:
    """Refuse a file in the data directory: a backup would hold itself. Raises OperatorError."""
    if path.parent.resolve().is_relative_to(data_dir.resolve()):
        raise OperatorError(f"`{path}` is in the data directory", next_step="name a place outside of it")


def _write(writer: ArchiveWriter, frames: Sequence[ArchiveFrame]) -> None:
    for frame in frames:
        writer.write(frame)


def _write_files(writer: ArchiveWriter, snapshot: FolderSnapshot, counts: BackupCounts) -> BackupCounts:
    with snapshot.taken():
        for piece in snapshot.pieces():
            frame = file_frame(piece)
            counts = counts.plus(frame)
            writer.write(frame)
    return counts


def _write_labelled(writer: ArchiveWriter, bucket: KeptFiles, counts: BackupCounts) -> BackupCounts:
    for stored in stored_files(bucket):
        frame = stored_frame(stored)
        counts = counts.plus(frame)
        writer.write(frame)
    return counts


def _small_files(config: Config) -> list[ArchiveFrame]:
    """Return the anchors, and the files of the configuration. Raises DiskError."""
    found = list[ArchiveFrame]()
    try:
        anchors = config.data_dir / ANCHORS
        if anchors.exists():
            found.append(ArchiveFrame(ANCHORED, {"content": anchors.read_bytes()}))
        found += map(file_frame, _retired(config.data_dir / RETIRED))
        for path in _configured(config):
            found.append(ArchiveFrame(CONFIG, {"path": path.name, "content": path.read_bytes()}))
    except OSError as error:
        raise DiskError(f"`{error.filename}` cannot be read: {error.strerror}") from None
    return found


def _retired(folder: Path) -> Iterator[FilePiece]:
    """Yield the folder with the heads of retired keys, which must not be newer than the chains, as anchors."""
    if folder.is_dir():
        yield FilePiece(RETIRED, 0o700, None)
        for path in sorted(folder.iterdir()):
            yield FilePiece(f"{RETIRED}/{path.name}", 0o600, 0, path.read_bytes())


def _configured(config: Config) -> Iterator[Path]:
    """Yield the file of the configuration, and the definitions that it names."""
    if config.source is not None:
        yield config.source
    if config.definitions is not None:
        yield from sorted(path for path in config.definitions.iterdir() if path.is_file())
