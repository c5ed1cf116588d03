"""Files as the operator keeps them: copies between local folders and the bucket, files put in, and their labels.

Only the operator may say the label of a file that no session wrote. A label that a session wrote is raised and never
lowered. Every change is a row of the chain `audit`, appended before it.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bot.access import labelling
from bot.core.errors import DiskError, OperatorError
from bot.core.json_values import JsonObject
from bot.files import locations
from bot.files.kept import KeptFiles, KeptName, StoredFile
from bot.files.locations import FileLocation, PathError
from bot.files.port import COMPARED, AbsentError, UnavailableError, UnusableError
from bot.operations.files.copying import CopiedFiles, FileCopier
from bot.operations.files.places import FilesPlace
from bot.sessions.audit import AuditRow
from bot.sessions.ports.store import Store
from policy.document.model import Document
from policy.document.reading import WORKSPACE
from policy.errors import LabelTextError
from policy.labels import Label

_ROW: Final = "files"
_STOP: Final = "stop them, or wait until they have ended"
_REPEAT: Final = "stop it and repeat the command: files that are there alike are not copied again"
_BUCKETLESS: Final = "name it under `files.bucket` in config.yaml"

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class LabelledPath:
    """A path that sessions can read, and the label with which they do; `there` is False where another file is."""

    path: str
    label: Label
    there: bool = True


class FileKeeper:
    """Copies, puts and labels files.

    `files` is the place in use, `places` all that are configured. `document` is the policy in force.
    """

    def __init__(
        self,
        files: KeptFiles,
        places: Mapping[FilesPlace, KeptFiles],
        document: Callable[[], Document],
        store: Store,
    ) -> None:
        self._files, self._places = files, places
        self._document, self._store = document, store

    async def copy(self, to: FilesPlace, actor: str, *, replaces: bool, dry: bool) -> CopiedFiles:
        """Copy all files to a place from the other one, and read each back.

        Args:
            to: The place to copy to.
            actor: The principal who asks for it.
            replaces: Whether another file of the same name there is replaced.
            dry: Whether to count only, and write nothing; processes may work then.

        Raises:
            OperatorError: there is no bucket, or processes work on the store.
            DiskError: a place cannot be used.
            StoreError: the store cannot be used.
        """
        source, target = self._places.get(to.other), self._places.get(to)
        if source is None or target is None:
            raise OperatorError("there is no bucket in the configuration", next_step=_BUCKETLESS)
        copy = FileCopier(source, target).copy
        if dry:
            return await _asked(partial(copy, replaces=replaces, dry=True))
        if await self._store.backups.others():
            raise OperatorError("other processes use the store", next_step=_STOP)
        await self._note(actor, {"change": "copy", "to": to.value, "replace": replaces})
        done = await _asked(partial(copy, replaces=replaces))
        # A process that came meanwhile may have written to the source.
        if await self._store.backups.others():
            raise OperatorError("a process came while files were copied, and may have changed some", next_step=_REPEAT)
        counts: JsonObject = {
            "files": done.files,
            "folders": done.folders,
            "present": done.present,
            "left": len(done.problems),
        }
        await self._note(actor, {"change": "copied", "to": to.value, **counts})
        return done

    async def put(
        self, local: Path, path: str, label: str | None, actor: str, *, replaces: bool
    ) -> tuple[LabelledPath, ...]:
        """Put a file, or all files of a folder, into a folder of the policy.

        Links and special files in a folder are left out, as are names that sessions cannot use.

        Args:
            local: The file or folder of this machine.
            path: The folder of the policy and the path in it; that of a folder for a file ends with `/`.
            label: The text of its label, None for that of the folder.
            actor: The principal who asks for it.
            replaces: Whether other files of these names and levels are replaced.

        Raises:
            OperatorError: the path or the label cannot be used.
            DiskError: a file cannot be read or written.
            StoreError: the audit cannot be written.
        """
        place = self._place(path)
        asked = self._label(label, place) if label is not None else place.floor
        into = not place.parts or path.endswith("/")
        if into and not await asyncio.to_thread(local.is_dir):
            place = self._place(f"{path}/{local.name}")
        found = list[LabelledPath]()
        for file, parts in await asyncio.to_thread(lambda: list(_regular(local))):
            one = replace(place, parts=(*place.parts, *parts))
            content = await asyncio.to_thread(_content, file)
            facts: JsonObject = {"path": _path(one), "label": str(asked), "digest": hashlib.sha256(content).hexdigest()}
            await self._note(actor, {"change": "put", **facts})
            there = await _asked(partial(self._restored, _stored(one, content, asked), replaces=replaces))
            found.append(LabelledPath(_path(one), asked, there))
        return tuple(found)

    async def label(self, path: str, label: str, actor: str) -> tuple[LabelledPath, ...]:
        """Label a file or a folder, and all below it that another tool put there, whose label nobody knows.

        Folders above it that are unknown get the label too: they would hide it.

        Args:
            path: The folder of the policy and the path in it.
            label: The text of the label.
            actor: The principal who asks for it.

        Raises:
            OperatorError: the path or the label cannot be used, or is below the label that a session wrote.
            DiskError: the place cannot be used.
            StoreError: the audit cannot be written.
        """
        place = self._place(path)
        asked = self._label(label, place)
        names = await _asked(partial(self._unlabelled, place, asked))
        if not names:
            raise OperatorError(f"there is nothing to label at `{path}`", next_step="`lockgate files list` names files")
        found = list[LabelledPath]()
        for name in names:
            facts: JsonObject = {"path": _path(name.place), "label": str(asked)}
            await self._note(actor, {"change": "label", **facts})
            there = await _asked(partial(self._relabel, name, place.floor, asked))
            found.append(LabelledPath(_path(name.place), asked, there))
        return tuple(found)

    async def listed(self, path: str, reader: Label) -> tuple[LabelledPath, ...]:
        """Return the names directly in a folder that a reader may know of, with their labels; folders end with `/`.

        Raises:
            OperatorError: there is no such folder.
            DiskError: the place cannot be used.
        """
        place = self._place(path)

        def names() -> tuple[tuple[str, Label], ...] | None:
            try:
                return self._files.list(place, reader)
            except AbsentError:
                return None

        found = await _asked(names)
        if found is None:
            raise OperatorError(f"there is no folder `{path}`", next_step=f"`lockgate files list {place.folder}`")
        return tuple(LabelledPath(f"{_path(place)}/{name}", label) for name, label in found)

    def _place(self, path: str) -> FileLocation:
        """Take a path apart. Raises OperatorError: it leads nowhere, or to a session's workspace."""
        try:
            place = locations.place(path, "", 0, self._document())
        except PathError as error:
            raise OperatorError(str(error), next_step="name a folder of `policy.folders` and a path in it") from None
        if place.workspace:
            raise OperatorError(f"`{WORKSPACE}` is of a session", next_step="name a folder of `policy.folders`")
        return place

    def _label(self, text: str, place: FileLocation) -> Label:
        """Read a label; return it with the floor's integrity. Raises OperatorError: it is none, or below the floor."""
        try:
            label = labelling.named(self._document(), text)
        except LabelTextError as error:
            raise OperatorError(str(error)) from None
        if not place.floor.flows_to(label):
            raise OperatorError(
                f"`{label}` is below `{place.floor}`, the floor of `{place.folder}`",
                next_step="name a higher label or another folder",
            )
        return place.floor.join(label)

    def _restored(self, stored: StoredFile, *, replaces: bool) -> bool:
        """Write a file with its folders and read it back; say whether it is there. Raises UnusableError, AbsentError.

        A folder that has no label yet becomes the operator's: the name of one that is not theirs stays as it is.
        """
        place = stored.place
        for depth in range(1, len(place.parts)):
            folder = replace(place, parts=place.parts[:depth])
            self._files.restore(StoredFile(folder, None, None, tree=stored.tree))
        self._files.restore(stored, replaces=replaces)
        return self._files.take(KeptName(place)).same(stored)

    def _unlabelled(self, place: FileLocation, asked: Label) -> list[KeptName]:
        """Return the names at, above and below a path that get a label. Raises OperatorError: one would fall."""
        found, here = list[KeptName](), len(place.parts)
        for name in self._files.kept(place):
            one = name.place
            if one.tree:
                continue
            way, below = place.parts[: len(one.parts)] == one.parts, one.parts[:here] == place.parts
            if (way or below) and self._labelled(name, asked, named=way and below):
                found.append(name)
        # Folders on the way alone are nothing to label.
        return found if any(name.place.parts[:here] == place.parts for name in found) else []

    def _labelled(self, name: KeptName, asked: Label, *, named: bool) -> bool:
        """Say whether a name gets a label: one that another tool put there, and the one that the operator named."""
        stored = self._files.take(name)
        if named and (label := _said(stored)) is not None and not label.within(asked):
            raise OperatorError(
                f"`{_path(name.place)}` has the label `{label}`, and no label is lowered",
                next_step=f"name `{asked.join(label)}`, or put the text there as another file",
            )
        return named or stored.unknown

    def _relabel(self, name: KeptName, floor: Label, asked: Label) -> bool:
        """Give a file or a folder a label, if it is as it was read. Raises UnusableError, AbsentError."""
        stored = self._files.take(name)
        label = _said(stored)
        if label is not None and not label.within(asked):
            # A session wrote it anew meanwhile.
            return False
        return self._files.label(stored, asked if label is not None or asked != floor else None)

    async def _note(self, actor: str, facts: JsonObject) -> None:
        await self._store.audit.append((AuditRow(_ROW, actor, facts),))


def _said(stored: StoredFile) -> Label | None:
    """Return the label that was given to a file, None for the operator's and for those of other tools."""
    return None if stored.unknown else stored.label


def _stored(place: FileLocation, content: bytes, label: Label) -> StoredFile:
    """Return the operator's file: the floor or the tree says its label, and it says itself what they do not."""
    own = None if label.integrity == place.floor.integrity else label
    if label.flows_to(place.floor):
        return StoredFile(place, content, own)
    return StoredFile(place.above(label), content, own, tree=label.secrecy)


def _path(place: FileLocation) -> str:
    return "/".join((place.folder, *place.parts))


def _regular(local: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield a file, or the files of a folder with their paths in it; no link in it is followed. Raises OperatorError.

    Names that sessions cannot use are left out.
    """
    if local.is_file():
        yield local, ()
        return
    if not local.is_dir():
        raise OperatorError(f"`{local}` is not a file or a folder", next_step="name one of this machine")
    for folder, folders, names in os.walk(local, followlinks=False):
        folders[:] = sorted(filter(locations.plain, folders))
        for file in (Path(folder, name) for name in sorted(filter(locations.plain, names))):
            if stat.S_ISREG(file.lstat().st_mode):
                yield file, file.relative_to(local).parts


def _content(file: Path) -> bytes:
    """Read a file of this machine. Raises DiskError, OperatorError: it is too large."""
    try:
        with file.open("rb") as opened:
            content = opened.read(COMPARED + 1)
    except OSError as error:
        raise DiskError(f"`{file}` cannot be read: {error.strerror}") from None
    if len(content) > COMPARED:
        raise OperatorError(f"`{file}` is larger than {COMPARED // 1_000_000} MB")
    return content


async def _asked(work: Callable[[], _R]) -> _R:
    """Work with the places that keep files, in a thread. Raises DiskError."""
    try:
        return await asyncio.to_thread(work)
    except UnavailableError as error:
        raise DiskError(str(error), next_step=error.next_step) from None
    except (UnusableError, AbsentError):
        raise DiskError(
            "a file cannot be read or written there",
            next_step="mend access or make room, and see that no folder has that name",
        ) from None
