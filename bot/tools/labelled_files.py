"""Files with a label beside each: the file root shared by all sessions, and workspaces.

A file that is written at its folder's floor is on disk under its own name, where the operator's files are. A file above
the floor is another file of that name: each level with its compartments has a tree of its own, in the folder `.above`
of the base. A session that may not know of a tree meets nothing of it, neither files nor names nor folders (law
`no_read_up`).

A file of an agent has its writer's label in a side file under `.labels` of its tree, and on the next line its sources.
It is written and synced before the text, so that a crash can leave a label too high but never one too low. The label
belongs to the content on this disk, which is why it is not in the store. A file without one was put there by the
operator; its folder's floor speaks for it. Symbolic links and `..` are refused.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final, Self

from bot.access import labelling
from bot.sessions.refs import FileRef, Ref, read, written
from bot.tools.base import RefusedCallError, ToolContext
from policy.document.model import Document
from policy.document.reading import WORKSPACE
from policy.errors import LabelTextError, nearest
from policy.labels import PUBLIC, Label, parse

LIMIT: Final = 1_000_000
"""Bytes of the largest text file that is read or written."""

_MOST: Final = 64_000_000
"""Bytes of the largest file that is compared."""

_VERSION: Final = 16
"""Hex digits of a version: enough that two never meet by chance."""

_FROM: Final = "\nfrom "
"""In a side file: between the label and the sources of the content."""

_LABELS: Final = ".labels"
_ABOVE: Final = ".above"
_LABEL: Final = ".label"
"""In a tree above the floor: its level and compartments."""

_BAK: Final = ".bak"
_LOCK: Final = ".lock"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG})


class AbsentError(Exception):
    """There is nothing, or nothing that may be touched."""


class UnusableError(Exception):
    """It is there and cannot be used: too large, not text, not writable."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A path taken apart: the base folder on disk, the policy folder's name, and the parts below the base.

    `floor` is the lowest label of data read there. `tree` are the folders between base and parts, none for a file at
    the floor.
    """

    base: Path
    folder: str
    parts: tuple[str, ...]
    workspace: bool
    floor: Label = PUBLIC
    tree: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path below the base, empty for the base itself."""
        return "/".join(self.parts)

    @property
    def root(self) -> Path:
        """The top folder of the tree."""
        return self.base.joinpath(*self.tree)


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there: which of those of its name, and its label with the floor joined in."""

    place: FileLocation
    label: Label


class FileRoot:
    """The shared file root and the sessions' workspaces.

    `shared` and `workspaces` are directories of this machine; `unreadable` returns the label of a file whose
    side file is damaged.
    """

    def __init__(self, shared: Path, workspaces: Path, unreadable: Callable[[], Label]) -> None:
        self._shared = shared
        self._workspaces = workspaces
        self._unreadable = unreadable

    def place(self, path: str, context: ToolContext) -> FileLocation:
        """Take a path apart.

        Raises RefusedCallError: it is absolute, climbs, has a part that may not be named, or begins with a folder that
        is not configured. The names of the configured ones are public.
        """
        parts = PurePosixPath(path).parts
        if path.startswith("/") or not parts or any(not _plain(part) for part in parts):
            raise RefusedCallError(
                "a path is relative, without `..`, control characters or names that begin with a dot"
            )
        if parts[0] == WORKSPACE:
            return self.workspace(context.session.sid, context.session.generation, *parts[1:])
        folders = context.document.folders
        if parts[0] not in folders:
            raise RefusedCallError(f"there is no folder `{parts[0]}`{nearest(parts[0], (*folders, WORKSPACE))}")
        return self.shared(parts[0], folders[parts[0]].label, *parts[1:])

    def place_named(self, path: str, sid: str, generation: int, document: Document) -> FileLocation | None:
        """Return where a path leads for a session, without asking whether it may go there; None for nowhere."""
        folder, *parts = PurePosixPath(path).parts or ("",)
        if not parts or path.startswith("/") or not all(map(_plain, (folder, *parts))):
            return None
        if folder == WORKSPACE:
            return self.workspace(sid, generation, *parts)
        known = document.folders.get(folder)
        return None if known is None else self.shared(folder, known.label, *parts)

    def shared(self, folder: str, floor: Label, *parts: str) -> FileLocation:
        """Return a place in a folder of the file root; the parts are names of our own."""
        return FileLocation(self._shared / folder, folder, parts, workspace=False, floor=floor)

    def workspace(self, sid: str, generation: int, *parts: str) -> FileLocation:
        """Return a place in the workspace of a session's generation; the parts are names of our own."""
        return FileLocation(self._workspaces / sid / str(generation), WORKSPACE, parts, workspace=True)

    def origin(self, found: Found) -> tuple[Ref, ...]:
        """Return the sources of a file's content, as its writer left them; nothing for the operator's files."""
        try:
            side = _side(found.place.root, found.place.parts).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return ()
        return read(side.partition(_FROM)[2])

    def every(self, place: FileLocation, reader: Label) -> tuple[Found, ...]:
        """Return all files of a name that a reader may know of, the highest first."""
        return tuple(found for found in self._readable(place, reader, foreign=False) if _exists(found.place))

    def find(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> Found | None:
        """Return the highest file of a name that a reader may know of, None if there is none.

        Of two that neither is above the other, the order of labels' texts decides. That holds in a workspace, too: a
        file that its session wrote there by reference may be above it. With `foreign`, a file that a session wrote is
        UNTRUSTED.
        """
        for found in self._readable(place, reader, foreign=foreign):
            with suppress(AbsentError), _open(found.place, os.O_RDONLY) as descriptor:
                if stat.S_ISREG(os.fstat(descriptor.number).st_mode):
                    return found
        return None

    def read(self, place: FileLocation) -> str:
        """Return a file's text.

        Raises:
            AbsentError: there is no such file.
            UnusableError: it is not UTF-8 text of at most LIMIT bytes.
        """
        try:
            return self.load(place, LIMIT).decode("utf-8")
        except UnicodeDecodeError:
            raise UnusableError from None

    def load(self, place: FileLocation, most: int) -> bytes:
        """Return the content of a file, of at most `most` bytes.

        Raises:
            AbsentError: there is no such file.
            UnusableError: it is larger.
        """
        with _open(place, os.O_RDONLY) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor.number).st_mode):
                raise AbsentError
            with os.fdopen(os.dup(descriptor.number), "rb") as file:
                content = file.read(most + 1)
        if len(content) > most:
            raise UnusableError
        return content

    def list(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> tuple[tuple[str, Label], ...]:
        """Return the names in a folder that a reader may know of, with their labels; folders end with `/`.

        Every file of a name is listed, a folder once. A base without any written file is empty. `foreign` is as for
        `find`.

        Raises AbsentError: there is no such folder.
        """
        entries, there = dict[tuple[str, str], Label](), not place.parts
        # The lowest first: a folder has the label of the lowest one of its name.
        for folder in reversed(self._readable(place, reader, foreign=foreign)):
            with suppress(AbsentError), _open(folder.place, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                there = True
                for name in _names(descriptor):
                    parts = (*place.parts, name.rstrip("/"))
                    label = folder.label.join(self._stored(folder.place.root, parts, foreign=foreign))
                    if label.flows_to(reader):
                        entries.setdefault((name, "" if name.endswith("/") else secrecy(label)), label)
        if not there:
            raise AbsentError
        found = ((name, label) for (name, _), label in entries.items())
        return tuple(sorted(found, key=lambda one: (one[0], _height(one[1]))))

    def write(
        self, place: FileLocation, text: str, label: Label, *, replaces: bool = True, refs: tuple[Ref, ...] = ()
    ) -> None:
        """Write a text file, as `keep` does.

        Raises UnusableError: it cannot be written, or is larger than LIMIT bytes.
        """
        content = text.encode("utf-8", errors="replace")
        if len(content) > LIMIT:
            raise UnusableError
        self.keep(place, content, label, replaces=replaces, refs=refs)

    def keep(
        self, place: FileLocation, content: bytes, label: Label, *, replaces: bool = True, refs: tuple[Ref, ...] = ()
    ) -> None:
        """Write a file whose content has this label, which is joined with the label of the file it replaces.

        It replaces the file of its own level and compartments alone, and with `replaces` unset none. The label's side
        file is on disk before the content is, and the names of new folders get it too. `refs`, the sources of the
        content, stand beside the label.

        Raises UnusableError: it cannot be written.
        """
        if not place.parts:
            raise UnusableError
        try:
            place.base.mkdir(parents=True, exist_ok=True)
            there = self._tree_for(place, label)
            with _made(there) as root, alone(root.number):
                if there.tree:
                    _put(root, _LABEL, secrecy(place.floor.join(label)))
                if not replaces and _exists(there):
                    raise UnusableError
                for depth in range(1, len(place.parts) + 1):
                    self._keep_label(there, place.parts[:depth], label, refs)
                _write_below(root.number, place.parts, content)
        except (OSError, AbsentError):
            raise UnusableError from None

    def written(self, place: FileLocation, label: Label) -> Found:
        """Return the place where a file of this label is written, and the label of the file there.

        See `owned` for its writer.
        """
        there = self._tree_for(place, label)
        floor = place.floor.join(label.secrecy) if there.tree else place.floor
        return Found(there, floor.join(self._stored(there.root, there.parts)))

    def owned(self, place: FileLocation) -> bool:
        """Say whether a session, or we, wrote a file; the operator wrote a file without a label beside it."""
        return _side(place.root, place.parts).exists()

    def swap(
        self, place: FileLocation, content: bytes, label: Label, *, expected: bytes | None, refs: tuple[Ref, ...] = ()
    ) -> bool:
        """Write a file as `keep` does if its present content is `expected`, None for no file, and say whether it was.

        The old content is beside it afterwards, under its name with `.bak`, with its label. The file has its new label
        alone, as its content is made of nothing that was there.

        Raises UnusableError: it cannot be written.
        """
        beside = replace(place, parts=(*place.parts[:-1], f"{place.parts[-1]}{_BAK}"))
        try:
            place.base.mkdir(parents=True, exist_ok=True)
            there = self._tree_for(place, label)
            with _made(there) as root, alone(root.number):
                if there.tree:
                    _put(root, _LABEL, secrecy(place.floor.join(label)))
                if self._content(there) != expected:
                    return False
                for depth in range(1, len(place.parts)):
                    self._share_label(there, place.parts[:depth], label)
                self._keep_label(there, place.parts, label, refs)
                if expected is not None:
                    old = self._stored(there.root, there.parts)
                    self._keep_label(replace(beside, tree=there.tree), beside.parts, old, ())
                    with _below(_Descriptor(os.dup(root.number)), place.parts[:-1]) as folder:
                        _keep_beside(folder, place.parts[-1], beside.parts[-1])
                _write_below(root.number, place.parts, content)
                # Nothing of the old content is left, so its label does not apply.
                self._put_label(there, place.parts, label, refs)
        except (OSError, AbsentError):
            raise UnusableError from None
        return True

    def sessions(self) -> tuple[str, ...]:
        """Return the ids of the sessions that have a workspace on this machine."""
        return tuple(entry.name for entry in (self._workspaces.iterdir() if self._workspaces.is_dir() else ()))

    def forget(self, sid: str, before: int) -> bool:
        """Delete a session's workspaces of generations before this one; return whether nothing of them is left."""
        home, gone = self._workspaces / sid, True
        for old in home.iterdir() if home.is_dir() else ():
            if old.name.isdecimal() and int(old.name) < before:
                shutil.rmtree(old, ignore_errors=True)
                gone = gone and not os.path.lexists(old)
        return gone

    def _content(self, place: FileLocation) -> bytes | None:
        """Return the content of a file, None if there is none."""
        try:
            return self.load(place, _MOST)
        except AbsentError:
            return None

    def _readable(self, place: FileLocation, reader: Label, *, foreign: bool) -> tuple[Found, ...]:
        """Return where a path may lead in the trees that a reader may know of, the highest first, the floor's last."""
        trees = (replace(place, tree=(_ABOVE, name)) for name in _entries(place.base / _ABOVE))
        found = [Found(place, place.floor), *(Found(tree, place.floor.join(self._of_tree(tree))) for tree in trees)]
        stored = partial(self._stored, parts=place.parts, foreign=foreign)
        found = [replace(one, label=one.label.join(stored(one.place.root))) for one in found]
        found = [one for one in found if one.label.flows_to(reader)]
        return tuple(sorted(found, key=lambda one: (_height(one.label), not one.place.tree), reverse=True))

    def _tree_for(self, place: FileLocation, label: Label) -> FileLocation:
        """Return the place for a file of this label: its own name if it is at the floor, else its tree.

        A file written before a floor was lowered is above it now. Beside such a file, also one at the floor has a tree.
        """
        here = place.floor.join(label)
        if here.flows_to(place.floor) and self._stored(place.base, place.parts).flows_to(place.floor):
            return place
        return replace(place, tree=(_ABOVE, hashlib.sha256(secrecy(here).encode("ascii")).hexdigest()))

    def _of_tree(self, tree: FileLocation) -> Label:
        """Return the level and compartments of a tree; one that does not say them is not readable."""
        found = self._read_label(tree.root / _LABEL)
        return self._unreadable() if found is None else found

    def _stored(self, root: Path, parts: tuple[str, ...], *, foreign: bool = False) -> Label:
        """Return the join of the labels that writers left beside a path of a tree, PUBLIC where the operator put it."""
        label = PUBLIC
        for depth in range(1, len(parts) + 1):
            stored = self._read_label(_side(root, parts[:depth]))
            if stored is not None:
                label = label.join(labelling.untrusted(stored) if foreign else stored)
        return label

    def _read_label(self, file: Path) -> Label | None:
        """Return the label in a file, None if there is no such file."""
        try:
            # Anything behind the label but the sources of the content is damage.
            return parse(file.read_text(encoding="ascii").partition(_FROM)[0].strip())
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, LabelTextError):
            return self._unreadable()

    def _keep_label(self, place: FileLocation, parts: tuple[str, ...], label: Label, refs: tuple[Ref, ...]) -> None:
        """Join a label into a side file; a folder that exists already keeps the label its name has.

        Only the sources of the newest content are kept.
        """
        if len(parts) < len(place.parts) and place.root.joinpath(*parts).is_dir():
            return
        kept = label.join(self._stored(place.root, parts)) if _side(place.root, parts).exists() else label
        self._put_label(place, parts, kept, refs)

    def _share_label(self, place: FileLocation, parts: tuple[str, ...], label: Label) -> None:
        """Give a folder's name this label where it is new, or where anybody may have given it the same name before."""
        if not place.root.joinpath(*parts).is_dir():
            self._keep_label(place, parts, label, ())
            return
        kept = self._read_label(_side(place.root, parts))
        if kept is None or not kept.untrusted or label.untrusted:
            return
        if place.floor.join(kept).secrecy == place.floor.join(label).secrecy:
            self._put_label(place, parts, label, ())

    @staticmethod
    def _put_label(place: FileLocation, parts: tuple[str, ...], kept: Label, refs: tuple[Ref, ...]) -> None:
        side = _side(place.root, parts)
        side.parent.mkdir(exist_ok=True)
        with _Descriptor(os.open(side.parent, os.O_RDONLY | os.O_DIRECTORY)) as labels:
            _put(labels, side.name, f"{kept}{_FROM}{written(refs)}" if refs else str(kept))


def version(place: FileLocation, text: str) -> FileRef:
    """Return the reference to a file as it is with this text: its name where the policy has it, and a digest."""
    return version_of(place, text.encode("utf-8", errors="replace"))


def version_of(place: FileLocation, content: bytes) -> FileRef:
    """Return the reference to a file as it is with this content."""
    return FileRef(f"{place.folder}/{place.name}", hashlib.sha256(content).hexdigest()[:_VERSION])


def secrecy(label: Label) -> str:
    """Return the text of a label's level and compartments, which decide who may know of a file."""
    return str(label).removesuffix("~")


def _height(label: Label) -> tuple[int, int, str]:
    """Return the sort key of files of one name: a label is never below one that flows to it."""
    return label.level, len(label.compartments), secrecy(label)


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _plain(part: str) -> bool:
    return not part.startswith(".") and part.isprintable() and len(part.encode(errors="replace")) <= 255  # noqa: PLR2004 - NAME_MAX


def _side(root: Path, parts: tuple[str, ...]) -> Path:
    """Return where a name's label is kept in a tree: names that some file system takes for one share it."""
    name = unicodedata.normalize("NFC", unicodedata.normalize("NFD", "/".join(parts)).casefold())
    return root / _LABELS / hashlib.sha256(name.encode(errors="replace")).hexdigest()


class _Descriptor:
    """An open file descriptor that is closed at the end of its block."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


@contextmanager
def alone(base: int) -> Generator[None]:
    """Keep other writers of an open folder out, those of other processes too: a label is read, joined and replaced."""
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=base)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open(place: FileLocation, flags: int) -> _Descriptor:
    """Open a place part by part without following any link, so that nothing can be swapped in between.

    Raises AbsentError: some part is missing, a link, or of another kind than the flags ask for.
    """
    parts = (*place.tree, *place.parts)
    try:
        current = _Descriptor(os.open(place.base, _FOLDER))
        for depth, part in enumerate(parts, start=1):
            with current as parent:
                wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK if depth == len(parts) else _FOLDER
                current = _Descriptor(os.open(part, wanted, dir_fd=parent.number))
    except OSError as error:
        if error.errno in _ABSENT:
            raise AbsentError from None
        raise UnusableError from None
    return current


def _exists(place: FileLocation) -> bool:
    """Say whether something of a place's name is there, a link too."""
    try:
        with _open(replace(place, parts=place.parts[:-1]), os.O_RDONLY | os.O_DIRECTORY) as folder:
            os.stat(place.parts[-1], dir_fd=folder.number, follow_symlinks=False)
    except (AbsentError, FileNotFoundError):
        return False
    return True


def _names(folder: _Descriptor) -> list[str]:
    """Return the names in an open folder that may be told; those of folders end with `/`."""
    with os.scandir(folder.number) as entries:
        return [
            f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            for entry in entries
            if _plain(entry.name) and not entry.is_symlink()
        ]


def _made(place: FileLocation) -> _Descriptor:
    """Open the top folder of a place's tree, and make it if it is not there."""
    return _below(_Descriptor(os.open(place.base, _FOLDER)), place.tree)


def _below(folder: _Descriptor, names: tuple[str, ...]) -> _Descriptor:
    """Open a folder below an open one, which is closed, making folders on the way."""
    current = folder
    for name in names:
        with current as parent:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent.number)
            current = _Descriptor(os.open(name, _FOLDER, dir_fd=parent.number))
    return current


def _write_below(base: int, parts: tuple[str, ...], content: bytes) -> None:
    """Write a file below an open folder, making folders on the way."""
    with _below(_Descriptor(os.dup(base)), parts[:-1]) as folder:
        _replace(folder, parts[-1], content)


def _keep_beside(folder: _Descriptor, name: str, beside: str) -> None:
    """Keep a file of an open folder under another name too.

    Where a file system has no links, it is gone under its own until the next one is there.
    """
    fresh = f".{hashlib.sha256(beside.encode(errors='replace')).hexdigest()[:16]}.new"
    with suppress(OSError):
        os.link(name, fresh, src_dir_fd=folder.number, dst_dir_fd=folder.number, follow_symlinks=False)
        os.rename(fresh, beside, src_dir_fd=folder.number, dst_dir_fd=folder.number)
        return
    os.rename(name, beside, src_dir_fd=folder.number, dst_dir_fd=folder.number)


def _put(folder: _Descriptor, name: str, text: str) -> None:
    """Write a line into a file of our own, unless it is there already."""
    content = f"{text}\n".encode("ascii")
    with suppress(OSError), _Descriptor(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.number)) as file:
        if os.read(file.number, len(content) + 1) == content:
            return
    _replace(folder, name, content)


def _replace(folder: _Descriptor, name: str, content: bytes) -> None:
    """Put a file into an open folder by writing beside and renaming; it is on disk when this returns."""
    fresh = f".{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:16]}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder.number), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, name, src_dir_fd=folder.number, dst_dir_fd=folder.number)
    os.fsync(folder.number)
