"""Putting a backup back: checked as a whole first, then into an empty store and data directory.

A restore takes the audit back to an earlier state, which is otherwise a sign of tampering. So it is told, and a row of
the chain `audit` says it. Nothing goes on by itself afterwards: open turns are stopped, and waiting messages are
cancelled, as they may have been worked on since. Texts that waited to be sent are reported as ambiguous.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio

from bot.audit.anchors import AnchoredChains
from bot.audit.chain import Head
from bot.audit.keys import RETIRED
from bot.core.errors import LockgateError, OperatorError, SchemaError
from bot.files.areas import Area
from bot.operations.backups.archive import ArchiveReader, is_end
from bot.operations.backups.denials import Denials
from bot.operations.backups.folders import ANCHORS, BEFORE, FilePiece, ReturnedFiles
from bot.operations.backups.labelled import ASIDE, ReturnedLabels
from bot.operations.backups.values import (
    ANCHORED,
    CONFIG,
    FILE,
    MANIFEST,
    STORED,
    UNIT,
    BackupCounts,
    BackupManifest,
    piece_of,
    stored_of,
    unit_of,
)
from bot.sessions.audit import AuditRow
from bot.sessions.models import SCHEMA
from bot.sessions.ports.store import Store

CONFIGURED: Final = "restored-config"
"""The folder of the data directory for the configuration of the backup, which is not put in force."""

_SHOWN: Final = 20
_OTHER: Final = "take the backup anew with this version, or restore it with version {}"
_RUNNING: Final = "stop them, or wait until they have ended"
_AUDIT: Final = "audit"


@dataclass(frozen=True, slots=True)
class CheckedBackup:
    """A backup that was read as a whole."""

    manifest: BackupManifest
    counts: BackupCounts
    digest: str


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """The outcome of a restore.

    Args:
        backup: The backup.
        stopped: Some of the sessions that had an open turn or waiting messages.
        stops: How many they are.
        doubtful: How many texts waited to be sent, which may have been sent since.
        shortened: How many chains no longer have the record that the anchors here told.
        aside: The folder with the earlier files, empty for none.
        configured: Whether the backup had a configuration.
        denied: How many tokens, accounts and chats were denied since the backup, and still are.
        renamed: The new paths of folders that had the name of a file, which only a bucket allows.
    """

    backup: CheckedBackup
    stopped: tuple[str, ...] = ()
    stops: int = 0
    doubtful: int = 0
    shortened: int = 0
    aside: str = ""
    configured: bool = False
    denied: int = 0
    renamed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Tally:
    """The sessions that were stopped, and the texts in doubt."""

    stopped: list[str] = field(default_factory=list[str])
    stops: int = 0
    doubtful: int = 0


def check(reader: ArchiveReader, names: Mapping[str, Collection[str]]) -> CheckedBackup:
    """Read a whole backup and check it; `names` are those of the keys here. It blocks.

    Raises OperatorError: it was changed or cut off, is of another version, or another key belongs to it.
    """
    manifest, counts = None, BackupCounts()
    for frame in reader.frames():
        if manifest is None:
            if frame.kind != MANIFEST:
                raise OperatorError("the backup begins without its facts", next_step="take another backup")
            manifest = BackupManifest.read(frame.facts)
            _fits(manifest, names)
        if is_end(frame) and frame.facts != counts.facts():
            raise OperatorError(
                "the counts at the end of the backup are not those of its content", next_step="take another backup"
            )
        counts = counts.plus(frame)
    if manifest is None:
        raise OperatorError("the backup is empty", next_step="take another backup")
    return CheckedBackup(manifest, counts, reader.digest)


def _fits(manifest: BackupManifest, names: Mapping[str, Collection[str]]) -> None:
    if manifest.schema != SCHEMA:
        raise OperatorError(
            f"the backup has records of version {manifest.schema}, and this program has version {SCHEMA}",
            next_step=_OTHER.format(manifest.version),
        )
    for use, needed in manifest.keys.items():
        lacking = [name for name in needed if name not in names.get(use, ())]
        if use != _AUDIT and lacking:
            raise OperatorError(
                f"the {use} key here is not the one of the backup, whose name is {lacking[0]}",
                next_step=f"put `keys/{use}` of that installation into the data directory, or set its variable",
            )


class BackupRestorer:
    """Puts a backup back. `earlier` are the heads that the anchors here tell, None for unreadable ones."""

    def __init__(
        self,
        store: Store,
        chains: AnchoredChains,
        files: ReturnedFiles,
        labelled: ReturnedLabels,
        *,
        earlier: Mapping[str, Head] | None,
    ) -> None:
        self._store, self._chains = store, chains
        self._files, self._labelled = files, labelled
        self._earlier = earlier

    async def restore(
        self, reader: ArchiveReader, backup: CheckedBackup, actor: str, *, replaces: bool
    ) -> RestoredBackup:
        """Put a checked backup back, and audit it.

        Args:
            reader: The file.
            backup: The outcome of reading it.
            actor: The principal who asks for it.
            replaces: Whether the store and the data directory may hold something, which is replaced.

        Raises:
            OperatorError: they hold something, processes run on them, or the file changed meanwhile.
            DiskError: the files cannot be written.
            StoreError: the store cannot be written.
        """
        keys, emptied, marked = self._store.backups, False, False
        whole = backup.manifest.files
        self._files.spare(() if whole else tuple(Area))
        await self._refused(replaces=replaces, files=whole)
        try:
            # Before the store is emptied, so that a full disk costs nothing of it.
            await asyncio.to_thread(self._files.begin)
            await self._put_files(reader, backup)
            marked = await keys.begin()
            # A process that came before the mark is seen now, with all that it wrote.
            await self._refused(replaces=replaces, files=whole)
            aside = f"{BEFORE}{await keys.now()}"
            kept = whole and await asyncio.to_thread(self._labelled.set_aside, self._files.data / aside / ASIDE)
            denials = await Denials.known(self._store)
            emptied = True
            await keys.clear()
            await self._put_keys(reader)
            tally = await self._rested(reader, actor)
            denied = await denials.kept(self._store, actor)
        except BaseException:
            # Nothing of a half restore stays. A store that cannot be emptied now keeps the mark.
            with anyio.CancelScope(shield=True), suppress(LockgateError):
                await asyncio.to_thread(self._files.drop)
                await asyncio.to_thread(self._labelled.drop)
                if emptied:
                    await keys.clear()
                if emptied or marked:
                    await keys.finish()
            raise
        found = RestoredBackup(backup, tuple(tally.stopped), tally.stops, tally.doubtful, denied=denied)
        return await self._finished(found, aside, actor, kept=kept)

    async def _finished(self, found: RestoredBackup, aside: str, actor: str, *, kept: bool) -> RestoredBackup:
        """Move the files to their places, and audit it; `kept` says whether files of a bucket are in `aside`."""
        if found.backup.manifest.files:
            await asyncio.to_thread(self._labelled.finish)
        moved = bool(await asyncio.to_thread(self._files.present))
        await asyncio.to_thread(self._files.finish, aside)
        found = replace(
            found,
            shortened=await self._shortened(),
            aside=aside if moved or kept else "",
            configured=await asyncio.to_thread((self._files.data / CONFIGURED).is_dir),
            renamed=self._labelled.renamed,
        )
        # A key that was retired since must not be valid again; the rows that came back are proven by the file.
        if older := await asyncio.to_thread(self._chains.retired.unretired):
            await self._chains.retire(older)
        await self._store.audit.append((_row(found, actor, known=self._earlier is not None),))
        await self._chains.anchor()
        await self._store.backups.finish()
        return found

    async def _refused(self, *, replaces: bool, files: bool) -> None:
        """Refuse a store, a data directory or a bucket that is in use, or holds something. Raises OperatorError.

        Without `files` the backup touches no bucket.
        """
        if await self._store.backups.others():
            raise OperatorError("other processes use the store", next_step=_RUNNING)
        if replaces:
            return
        again = "take a backup of it, then repeat the command with --replace"
        if not await self._store.backups.empty():
            raise OperatorError("the store holds records", next_step=f"name an empty one, or {again}")
        # Retired keys are put there so that no backup counts which one of them signed.
        present = [name for name in await asyncio.to_thread(self._files.present) if name != RETIRED]
        if present:
            raise OperatorError(
                f"`{self._files.data}` holds {', '.join(f'`{name}`' for name in present[:5])}",
                next_step=f"name an empty one with `data_dir`, or {again}",
            )
        if files and await asyncio.to_thread(self._labelled.held):
            raise OperatorError(
                "the bucket holds files", next_step=f"name an empty `prefix` under `files.bucket`, or {again}"
            )

    async def _put_keys(self, reader: ArchiveReader) -> None:
        """Put keys into the store."""
        frames = reader.frames()
        while (frame := await asyncio.to_thread(next, frames, None)) is not None:
            if frame.kind == UNIT:
                await self._store.backups.put(unit_of(frame))

    async def _put_files(self, reader: ArchiveReader, backup: CheckedBackup) -> None:
        """Put files beside the data. Raises OperatorError: the file is another one than was checked."""
        frames = reader.frames()
        while (frame := await asyncio.to_thread(next, frames, None)) is not None:
            if frame.kind == FILE:
                await asyncio.to_thread(self._files.put, piece_of(frame))
            elif frame.kind == STORED:
                await asyncio.to_thread(self._labelled.put, stored_of(frame))
            elif frame.kind == ANCHORED:
                piece = FilePiece(ANCHORS, 0o600, 0, frame.facts["content"])
                await asyncio.to_thread(self._files.put, piece)
            elif frame.kind == CONFIG:
                await asyncio.to_thread(self._configured, frame.facts["path"], frame.facts["content"])
        if reader.digest != backup.digest:
            raise OperatorError("the backup is another one than was checked", next_step="repeat the command")

    def _configured(self, name: str, content: bytes) -> None:
        self._files.put(FilePiece(CONFIGURED, 0o700, None))
        self._files.put(FilePiece(f"{CONFIGURED}/{Path(name).name}", 0o600, 0, content))

    async def _rested(self, reader: ArchiveReader, actor: str) -> _Tally:
        """Take all sessions out of the hands of the processes of their time."""
        tally, frames = _Tally(), reader.frames()
        while (frame := await asyncio.to_thread(next, frames, None)) is not None:
            sid = unit_of(frame).sid if frame.kind == UNIT else ""
            if not sid:
                continue
            found = await self._store.backups.rest(sid)
            tally.doubtful += found.doubtful
            if found.open or found.waiting:
                await self._store.sessions.stop(sid, actor=actor)
                tally.stops += 1
                if len(tally.stopped) < _SHOWN:
                    tally.stopped.append(sid)
        return tally

    async def _shortened(self) -> int:
        """Return how many chains lack the record of the earlier anchors, or have another one there."""
        count = 0
        for chain, (n, digest) in (self._earlier or {}).items():
            try:
                there = await self._store.audit.records(chain, after=n - 1, limit=1)
            except SchemaError:
                there = ()
            count += not there or there[0].hash != digest
        return count


def _row(found: RestoredBackup, actor: str, *, known: bool) -> AuditRow:
    body = {
        "backup": found.backup.digest,
        "made": found.backup.manifest.made,
        **found.backup.counts.facts(),
        "stopped": found.stops,
        "doubtful": found.doubtful,
        "shortened": found.shortened,
        "denied": found.denied,
        "anchors": "compared" if known else "unreadable",
    }
    return AuditRow("restored", actor, body)
