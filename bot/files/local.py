"""Labelled files in folders of this machine.

A file at the floor is on disk under its own name, where the operator's files are. A tree above the floor is in the
folder `.above` of the base. A file of an agent has its writer's label in a side file under `.labels` of its tree, and
on the next line its sources. It is written and synced before the text, so that a crash can leave a label too high but
never one too low. The label belongs to the content on this disk, which is why it is not in the store. A file without
one was put there by the operator; its folder's floor speaks for it.
"""

import hashlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bot.access import labelling
from bot.files.areas import Area, begin_root
from bot.files.disk import FOLDER, Descriptor, alone, below, exists, keep_beside, opened, plain_names, put, write_below
from bot.files.kept import KeptName, StoredFile
from bot.files.locations import FileLocation, FolderListing, height, plain, secrecy
from bot.files.port import BESIDE, COMPARED, AbsentError, Found, UnusableError
from bot.sessions.refs import Ref, read, written
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, join_all, parse

_FROM: Final = "\nfrom "
"""In a side file: between the label and the sources of the content."""

_LABELS: Final = ".labels"
_ABOVE: Final = ".above"
_LABEL: Final = ".label"
"""In a tree above the floor: its level and compartments."""


class LocalFiles:
    """Implements the ports `LabelledFiles` and `KeptFiles` with folders.

    `data_dir` has a folder for each area. `unreadable` returns the label of a file whose side file is damaged.
    """

    def __init__(self, data_dir: Path, unreadable: Callable[[], Label]) -> None:
        self._data_dir = data_dir
        self._unreadable = unreadable

    def path(self, place: FileLocation) -> Path:
        """Return where a place is on disk."""
        return self._root(place).joinpath(*place.parts)

    def origin(self, found: Found) -> tuple[Ref, ...]:
        """Implement the port."""
        try:
            side = _side(self._root(found.place), found.place.parts).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return ()
        return read(side.partition(_FROM)[2])

    def every(self, place: FileLocation, reader: Label) -> tuple[Found, ...]:
        """Implement the port."""
        return tuple(found for found in self._readable(place, reader, foreign=False) if self._exists(found.place))

    def find(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> Found | None:
        """Implement the port."""
        for found in self._readable(place, reader, foreign=foreign):
            with suppress(AbsentError), self._opened(found.place, os.O_RDONLY) as descriptor:
                if stat.S_ISREG(os.fstat(descriptor.number).st_mode):
                    return found
        return None

    def load(self, place: FileLocation, most: int) -> bytes:
        """Implement the port."""
        content = self._content(place, most + 1)
        if len(content) > most:
            raise UnusableError
        return content

    def list(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> tuple[tuple[str, Label], ...]:
        """Implement the port."""
        listing, there = FolderListing(reader), not place.parts
        # The lowest first: a folder has the label of the lowest one of its name.
        for folder in reversed(self._readable(place, reader, foreign=foreign)):
            with suppress(AbsentError), self._opened(folder.place, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                there = True
                for name in plain_names(descriptor):
                    parts = (*place.parts, name.rstrip("/"))
                    label = folder.label.join(self._stored(self._root(folder.place), parts, foreign=foreign))
                    listing.add(name, label)
        if not there:
            raise AbsentError
        return listing.names

    def keep(
        self, place: FileLocation, content: bytes, label: Label, *, replaces: bool = True, refs: tuple[Ref, ...] = ()
    ) -> None:
        """Implement the port; the label's side file is on disk before the content is."""
        if not place.parts:
            raise UnusableError
        try:
            self._base(place).mkdir(parents=True, exist_ok=True)
            there = self._tree_for(place, label)
            with self._made(there) as root, alone(root.number):
                if there.tree:
                    put(root, _LABEL, secrecy(place.floor.join(label)))
                if not replaces and self._exists(there):
                    raise UnusableError
                for depth in range(1, len(place.parts) + 1):
                    self._keep_label(there, place.parts[:depth], label, refs)
                write_below(root.number, place.parts, content)
        except (OSError, AbsentError):
            raise UnusableError from None

    def written(self, place: FileLocation, label: Label) -> Found:
        """Implement the port."""
        there = self._tree_for(place, label)
        floor = place.floor.join(label.secrecy) if there.tree else place.floor
        return Found(there, floor.join(self._stored(self._root(there), there.parts)))

    def owned(self, place: FileLocation) -> bool:
        """Implement the port: the operator's files have no side file."""
        return _side(self._root(place), place.parts).exists()

    def swap(
        self, place: FileLocation, content: bytes, label: Label, *, expected: bytes | None, refs: tuple[Ref, ...] = ()
    ) -> bool:
        """Implement the port."""
        beside = replace(place, parts=(*place.parts[:-1], f"{place.parts[-1]}{BESIDE}"))
        try:
            self._base(place).mkdir(parents=True, exist_ok=True)
            there = self._tree_for(place, label)
            with self._made(there) as root, alone(root.number):
                if there.tree:
                    put(root, _LABEL, secrecy(place.floor.join(label)))
                if self._compared(there) != expected:
                    return False
                for depth in range(1, len(place.parts)):
                    self._share_label(there, place.parts[:depth], label)
                self._keep_label(there, place.parts, label, refs)
                if expected is not None:
                    old = self._stored(self._root(there), there.parts)
                    self._keep_label(replace(beside, tree=there.tree), beside.parts, old, ())
                    with below(Descriptor(os.dup(root.number)), place.parts[:-1]) as folder:
                        keep_beside(folder, place.parts[-1], beside.parts[-1])
                write_below(root.number, place.parts, content)
                # Nothing of the old content is left, so its label does not apply.
                self._put_label(there, place.parts, label, refs)
        except (OSError, AbsentError):
            raise UnusableError from None
        return True

    def sessions(self) -> Iterator[str]:
        """Yield the ids of the sessions that have a workspace on this machine."""
        with suppress(OSError), os.scandir(self._data_dir / Area.SESSIONS) as entries:
            yield from (entry.name for entry in entries)

    def forget(self, sid: str, before: int) -> bool:
        """Implement the port."""
        home, gone = self._data_dir / Area.SESSIONS / sid, True
        for old in home.iterdir() if home.is_dir() else ():
            if old.name.isdecimal() and int(old.name) < before:
                shutil.rmtree(old, ignore_errors=True)
                gone = gone and not os.path.lexists(old)
        return gone

    def begin(self, files: Mapping[str, str]) -> None:
        """Implement the port: a file root that was emptied is still there, and stays empty."""
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            begin_root(self._data_dir, files)
        except OSError:
            raise UnusableError from None

    def kept(self, base: FileLocation | None = None) -> Iterator[KeptName]:
        """Implement the port; the content of a folder that cannot be opened is left out, and `take` tells of it."""
        every = (FileLocation(area, home, ()) for area in Area for home in self._homes(area))
        for bottom in every if base is None else (FileLocation(base.area, base.home, ()),):
            for tree in ("", *_folders(self._base(bottom) / _ABOVE)):
                yield from self._below(replace(bottom, tree=tree))

    def take(self, name: KeptName) -> StoredFile:
        """Implement the port."""
        place = name.place
        tree = self._of_tree(replace(place, parts=())) if place.tree else None
        try:
            return self._as_stored(place, folder=name.folder, tree=tree)
        except AbsentError:
            if self._exists(place):
                # A link, a special file, or one that this user may not open.
                raise UnusableError from None
            raise

    def restore(self, stored: StoredFile, *, replaces: bool = False) -> None:
        """Implement the port; no content is on disk below its label at any time."""
        place, side = stored.place, _side(self._root(stored.place), stored.place.parts)
        if not place.parts:
            raise UnusableError
        try:
            self._base(place).mkdir(parents=True, exist_ok=True)
            with self._made(place) as root, alone(root.number):
                there, now, label = self._exists(place), self._read_label(side), stored.label
                if there and self._is_folder(place) != (stored.content is None):
                    raise UnusableError
                if there and not replaces:
                    return
                self._restore_tree(root, stored)
                if now not in {None, label} and self._shares(place):
                    label = join_all(filter(None, (now, label)))
                first = [one for one in (now if there else None, label) if one is not None]
                if first:
                    self._put_label(place, place.parts, join_all(first), stored.refs)
                if stored.content is None:
                    below(Descriptor(os.dup(root.number)), place.parts).close()
                else:
                    write_below(root.number, place.parts, stored.content)
                if label is None:
                    side.unlink(missing_ok=True)
                else:
                    self._put_label(place, place.parts, label, stored.refs)
        except (OSError, AbsentError):
            raise UnusableError from None

    def label(self, stored: StoredFile, label: Label | None) -> bool:
        """Implement the port."""
        place = stored.place
        try:
            with self._opened(replace(place, parts=()), os.O_RDONLY | os.O_DIRECTORY) as root, alone(root.number):
                if self._as_stored(place, folder=stored.content is None, tree=stored.tree) != stored:
                    return False
                if label is None:
                    _side(self._root(place), place.parts).unlink(missing_ok=True)
                else:
                    self._put_label(place, place.parts, label, stored.refs)
        except AbsentError:
            return False
        except OSError:
            raise UnusableError from None
        return True

    def clear(self) -> None:
        """Implement the port."""
        try:
            for area in Area:
                with suppress(FileNotFoundError):
                    shutil.rmtree(self._data_dir / area)
        except OSError:
            raise UnusableError from None

    def _restore_tree(self, root: Descriptor, stored: StoredFile) -> None:
        """Note the level of a tree; one that has another keeps the join of both."""
        if stored.tree is not None:
            now = self._read_label(self._root(stored.place) / _LABEL)
            put(root, _LABEL, secrecy(stored.tree if now is None else stored.tree.join(now)))

    def _is_folder(self, place: FileLocation) -> bool:
        """Say whether there is a folder. Raises UnusableError."""
        try:
            self._opened(place, os.O_RDONLY | os.O_DIRECTORY).close()
        except AbsentError:
            return False
        return True

    def _shares(self, place: FileLocation) -> bool:
        """Say whether another name beside a place shares its label. Raises UnusableError."""
        root, folder, names = self._root(place), place.parts[:-1], set[str]()
        with suppress(AbsentError), self._opened(replace(place, parts=folder), os.O_RDONLY | os.O_DIRECTORY) as beside:
            names = {name.rstrip("/") for name in plain_names(beside)} - {place.parts[-1]}
        side = _side(root, place.parts)
        return any(_side(root, (*folder, name)) == side for name in names)

    def _homes(self, area: Area) -> Iterator[tuple[str, ...]]:
        """Yield the base folders of an area: those of the policy, or the generations of sessions."""
        for name in filter(plain, _folders(self._data_dir / area)):
            if area is Area.SHARED:
                yield (name,)
            else:
                numbers = filter(str.isdecimal, _folders(self._data_dir / area / name))
                yield from ((name, number) for number in numbers)

    def _below(self, folder: FileLocation) -> Iterator[KeptName]:
        """Yield the names in a folder and below it. Raises UnusableError: the top of a tree cannot be opened."""
        try:
            with self._opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
                names = sorted(plain_names(descriptor))
        except (AbsentError, UnusableError):
            if not folder.parts:
                raise UnusableError from None
            return
        for name in names:
            found = KeptName(replace(folder, parts=(*folder.parts, name.rstrip("/"))), name.endswith("/"))
            yield found
            if found.folder:
                yield from self._below(found.place)

    def _as_stored(self, place: FileLocation, *, folder: bool, tree: Label | None) -> StoredFile:
        """Return a file or folder with its own label. Raises AbsentError, UnusableError."""
        side = _side(self._root(place), place.parts)
        label, after = self._read_label(side), None
        while True:
            if folder:
                self._opened(place, os.O_RDONLY | os.O_DIRECTORY).close()
            content = None if folder else self._content(place)
            # A label is on disk before its text: unchanged after the read, it is the label of the text.
            after = self._read_label(side)
            if after == label:
                return StoredFile(place, content, label, self.origin(Found(place, PUBLIC)), tree)
            label = after

    def _base(self, place: FileLocation) -> Path:
        """Return where the base of a place is on disk."""
        return self._data_dir.joinpath(place.area, *place.home)

    def _root(self, place: FileLocation) -> Path:
        """Return where the top folder of a place's tree is on disk."""
        return self._base(place).joinpath(*_tree(place))

    def _opened(self, place: FileLocation, flags: int) -> Descriptor:
        """Open a place. Raises AbsentError, UnusableError."""
        return opened(self._base(place), (*_tree(place), *place.parts), flags)

    def _exists(self, place: FileLocation) -> bool:
        """Say whether something of a place's name is there, a link too."""
        return exists(self._base(place), (*_tree(place), *place.parts))

    def _made(self, place: FileLocation) -> Descriptor:
        """Open the top folder of a place's tree, and make it if it is not there."""
        return below(Descriptor(os.open(self._base(place), FOLDER)), _tree(place))

    def _content(self, place: FileLocation, most: int = -1) -> bytes:
        """Return the first `most` bytes of a file, all by default. Raises AbsentError, UnusableError."""
        with self._opened(place, os.O_RDONLY) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor.number).st_mode):
                raise AbsentError
            with os.fdopen(os.dup(descriptor.number), "rb") as file:
                return file.read(most)

    def _compared(self, place: FileLocation) -> bytes | None:
        """Return the content of a file, None if there is none. Raises UnusableError: it is too large to compare."""
        try:
            return self.load(place, COMPARED)
        except AbsentError:
            return None

    def _readable(self, place: FileLocation, reader: Label, *, foreign: bool) -> tuple[Found, ...]:
        """Return where a path may lead in the trees that a reader may know of, the highest first, the floor's last."""
        trees = (replace(place, tree=name) for name in _entries(self._base(place) / _ABOVE))
        found = [Found(place, place.floor), *(Found(tree, place.floor.join(self._of_tree(tree))) for tree in trees)]
        stored = partial(self._stored, parts=place.parts, foreign=foreign)
        found = [replace(one, label=one.label.join(stored(self._root(one.place)))) for one in found]
        found = [one for one in found if one.label.flows_to(reader)]
        return tuple(sorted(found, key=lambda one: (height(one.label), not one.place.tree), reverse=True))

    def _tree_for(self, place: FileLocation, label: Label) -> FileLocation:
        """Return the place for a file of this label: its own name if it is at the floor, else its tree.

        A file written before a floor was lowered is above it now. Beside such a file, also one at the floor has a tree.
        """
        here = place.floor.join(label)
        if here.flows_to(place.floor) and self._stored(self._base(place), place.parts).flows_to(place.floor):
            return place
        return place.above(here)

    def _of_tree(self, tree: FileLocation) -> Label:
        """Return the level and compartments of a tree; one that does not say them is not readable."""
        found = self._read_label(self._root(tree) / _LABEL)
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
        if len(parts) < len(place.parts) and self._root(place).joinpath(*parts).is_dir():
            return
        kept = label.join(self._stored(self._root(place), parts)) if _side(self._root(place), parts).exists() else label
        self._put_label(place, parts, kept, refs)

    def _share_label(self, place: FileLocation, parts: tuple[str, ...], label: Label) -> None:
        """Give a folder's name this label where it is new, or where anybody may have given it the same name before."""
        if not self._root(place).joinpath(*parts).is_dir():
            self._keep_label(place, parts, label, ())
            return
        kept = self._read_label(_side(self._root(place), parts))
        if kept is None or not kept.untrusted or label.untrusted:
            return
        if place.floor.join(kept).secrecy == place.floor.join(label).secrecy:
            self._put_label(place, parts, label, ())

    def _put_label(self, place: FileLocation, parts: tuple[str, ...], kept: Label, refs: tuple[Ref, ...]) -> None:
        side = _side(self._root(place), parts)
        side.parent.mkdir(exist_ok=True)
        with Descriptor(os.open(side.parent, os.O_RDONLY | os.O_DIRECTORY)) as labels:
            put(labels, side.name, f"{kept}{_FROM}{written(refs)}" if refs else str(kept))


def _tree(place: FileLocation) -> tuple[str, ...]:
    """Return the folders between a base and the top of a place's tree."""
    return (_ABOVE, place.tree) if place.tree else ()


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, none if it is not there. Raises UnusableError."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError:
        raise UnusableError from None


def _side(root: Path, parts: tuple[str, ...]) -> Path:
    """Return where a name's label is kept in a tree: names that some file system takes for one share it."""
    name = unicodedata.normalize("NFC", unicodedata.normalize("NFD", "/".join(parts)).casefold())
    return root / _LABELS / hashlib.sha256(name.encode(errors="replace")).hexdigest()
