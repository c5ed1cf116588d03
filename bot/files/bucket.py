"""Labelled files in an S3-compatible bucket, which several machines share.

A file is an object under its path. Its label and its sources are metadata of that object, so label and bytes are one
conditional write. Folders have an object `.label` for the label of their name. Trees above the floor are in `.above`,
as on disk.

A bucket tells two writes apart by the digest of the bytes alone, so a label that was raised under the same bytes would
not be noticed. Each of our objects ends in a random text of fixed length, which is not part of the file: no two writes
have the same digest. Metadata holds 2 KB. Longer labels and sources are in an object under `.long` that is written
before, and the metadata holds its digest.

An object without our metadata, or with metadata that cannot be read, was put there with another tool. Nobody knows
whose it is, so it is top (law `unknown_is_worst`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.files.areas import Area
from bot.files.kept import KeptName, StoredFile
from bot.files.locations import FileLocation, FolderListing, height, plain, shared, tree_of
from bot.files.objects import ObjectHead, Objects
from bot.files.port import BESIDE, COMPARED, AbsentError, Found, UnavailableError, UnusableError
from bot.sessions.refs import Ref, read, written
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, join_all, parse

_ABOVE: Final = ".above"
_LABEL: Final = ".label"
_LONG: Final = ".long"

_SAYS: Final = "lockgate-label"
_SIZE: Final = "lockgate-size"
_WRITE: Final = "lockgate-write"
_REFS: Final = "lockgate-from"
_BY: Final = "lockgate-by"
"""The names of our metadata: label, bytes of the file, random text, sources, and whose the file is."""

_MARK: Final = b"\nlockgate:"
_NONCE: Final = 16
"""Letters and digits of a write's random text."""
_TAIL: Final = len(_MARK) + _NONCE

_INLINE: Final = 600
"""Bytes of the longest label, and of the longest sources, in metadata."""

_DIGEST: Final = "sha256:"
_OPERATOR: Final = "operator"

_TRIES: Final = 100
"""Each failed write of one writer is a successful write of another."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An object as it is kept.

    Args:
        tag: Its state.
        size: The bytes of the file.
        label: Its label; that of unreadable files if it has none.
        ours: Whether we wrote it.
        by_operator: Whether it is the operator's and has the label of its floor.
        refs: The sources of the content, as text.
        nonce: The random text of the write.
    """

    tag: str
    size: int
    label: Label
    ours: bool
    by_operator: bool = False
    refs: str = ""
    nonce: str = ""

    def own(self, *, foreign: bool) -> Label:
        """Return its label; with `foreign`, UNTRUSTED if a session wrote it."""
        return labelling.untrusted(self.label) if foreign and not self.by_operator else self.label


@dataclass(frozen=True, slots=True)
class _Met:
    """A path in one tree: its label with the floor and the tree joined in, and the file there, if there is one."""

    place: FileLocation
    label: Label
    file: _Kept | None


class BucketFiles:
    """Implements the ports `LabelledFiles` and `KeptFiles` with the objects of a bucket.

    `unreadable` returns the label of an object that does not say its own, `nonce` a random text of `_NONCE` letters and
    digits.
    """

    def __init__(self, objects: Objects, unreadable: Callable[[], Label], nonce: Callable[[], str]) -> None:
        self._objects = objects
        self._unreadable = unreadable
        self._nonce = nonce

    def origin(self, found: Found) -> tuple[Ref, ...]:
        """Implement the port."""
        kept = self._kept(found.place)
        return () if kept is None else read(kept.refs)

    def every(self, place: FileLocation, reader: Label) -> tuple[Found, ...]:
        """Implement the port."""
        return tuple(_found(one) for one in self._readable(place, reader, foreign=False) if one.file is not None)

    def find(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> Found | None:
        """Implement the port."""
        met = self._readable(place, reader, foreign=foreign)
        return next((_found(one) for one in met if one.file is not None), None)

    def load(self, place: FileLocation, most: int) -> bytes:
        """Implement the port."""
        return self._loaded(place, most)[1]

    def list(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> tuple[tuple[str, Label], ...]:
        """Implement the port."""
        listing, there = FolderListing(reader), not place.parts
        # The lowest first: a folder has the label of the lowest one of its name.
        for folder in reversed(self._readable(place, reader, foreign=foreign, folder=True)):
            files, folders = self._objects.folder(_key(folder.place))
            there = there or bool(files or folders)
            names = [*filter(plain, files), *(f"{name}/" for name in folders if plain(name))]
            inside = [replace(folder.place, parts=(*place.parts, name.rstrip("/"))) for name in names]
            keys = [_marker(one) if name.endswith("/") else _key(one) for name, one in zip(names, inside, strict=True)]
            for name, one, head in zip(names, inside, self._objects.heads(keys), strict=True):
                label = folder.label.join(self._own(self._read(one, head), foreign=foreign))
                listing.add(name, label)
        if not there:
            raise AbsentError
        return listing.names

    def keep(
        self, place: FileLocation, content: bytes, label: Label, *, replaces: bool = True, refs: tuple[Ref, ...] = ()
    ) -> None:
        """Implement the port."""
        if not place.parts:
            raise UnusableError
        for _ in range(_TRIES):
            there = self._tree_for(place, label)
            self._make_way(there, label)
            old = self._kept(there)
            if old is not None and not replaces:
                raise UnusableError
            new = label if old is None else label.join(old.label)
            if self._put(there, _key(there), content, new, refs=written(refs), over=old):
                return
        raise UnusableError

    def written(self, place: FileLocation, label: Label) -> Found:
        """Implement the port."""
        there = self._tree_for(place, label)
        floor = place.floor.join(label.secrecy) if there.tree else place.floor
        heads = self._heads_on_way(there)
        file = heads[-1][0] if heads else None
        return Found(there, floor.join(_joined(heads)), "" if file is None else file.tag)

    def owned(self, place: FileLocation) -> bool:
        """Implement the port: the operator's files have no label, or say that they are the operator's."""
        kept = self._kept(place)
        return kept is not None and kept.ours and not kept.by_operator

    def swap(
        self, place: FileLocation, content: bytes, label: Label, *, expected: bytes | None, refs: tuple[Ref, ...] = ()
    ) -> bool:
        """Implement the port.

        The copy beside is written on the condition that no other swap wrote it since before the file was read. So after
        several swaps at once it holds the content before the last one that counts.
        """
        for _ in range(_TRIES):
            there = self._tree_for(place, label)
            beside = replace(there, parts=(*there.parts[:-1], f"{there.parts[-1]}{BESIDE}"))
            earlier = self._kept(beside)
            try:
                old, present = self._loaded(there, COMPARED)
            except AbsentError:
                old, present = None, None
            if present != expected:
                return False
            self._make_way(there, label, sharing=True)
            if old is not None and present is not None:
                kept = old.label if earlier is None else old.label.join(earlier.label)
                if not self._put(beside, _key(beside), present, kept, over=earlier):
                    continue
            # Nothing of the old content is left, so its label does not apply.
            if self._put(there, _key(there), content, label, refs=written(refs), over=old):
                return True
        raise UnusableError

    def sessions(self) -> Iterator[str]:
        """Implement the port, for all machines."""
        before = ""
        # In order, a page at a time. The objects of one session follow one another.
        for key in self._objects.below(Area.SESSIONS):
            sid = key.split("/")[1]
            if sid != before:
                before = sid
                yield sid

    def forget(self, sid: str, before: int) -> bool:
        """Implement the port; while the bucket does not answer, something is left."""
        home = f"{Area.SESSIONS}/{sid}"
        try:
            old = [name for name in self._objects.folder(home)[1] if name.isdecimal() and int(name) < before]
            for name in old:
                self._objects.delete(list(self._objects.below(f"{home}/{name}")))
            return not any(next(self._objects.below(f"{home}/{name}"), "") for name in old)
        except UnavailableError:
            return False

    def begin(self, files: Mapping[str, str]) -> None:
        """Implement the port: the file root's own object `.label` says that there was one."""
        begun = f"{Area.SHARED}/{_LABEL}"
        if self._objects.head(begun) is not None:
            return
        if next(self._objects.below(Area.SHARED), None) is None:
            for name, text in files.items():
                folder, *parts = name.split("/")
                for depth in range(1, len(parts)):
                    self.restore(StoredFile(shared(folder, PUBLIC, *parts[:depth]), None, None))
                self.restore(StoredFile(shared(folder, PUBLIC, *parts), text.encode(), None))
        self._objects.put(begun, b"", {}, over=None)

    def kept(self, base: FileLocation | None = None) -> Iterator[KeptName]:
        """Implement the port; objects alone make folders, too, where another tool put them."""
        for area, top in ((area, area.value) for area in Area) if base is None else ((base.area, _base(base)),):
            seen = set[FileLocation]()
            for key in self._objects.below(top):
                place = _place(area, key)
                if place is None:
                    continue
                marker = key.endswith(f"/{_LABEL}")
                for depth in range(1, len(place.parts) + marker):
                    folder = replace(place, parts=place.parts[:depth])
                    if folder not in seen:
                        seen.add(folder)
                        yield KeptName(folder, folder=True)
                if not marker:
                    yield KeptName(place)

    def take(self, name: KeptName) -> StoredFile:
        """Implement the port. The folders of objects that another tool put there are as unknown as those."""
        place = name.place
        said = self._head(place, f"{_root(place)}/{_LABEL}") if place.tree else None
        tree = self._of_tree(said, place.tree) if place.tree else None
        if name.folder:
            kept, content = self._head(place, _marker(place)), None
            if kept is None and next(self._objects.below(_key(place)), None) is None:
                raise AbsentError
        else:
            kept, content = self._loaded(place, None)
        if kept is None:
            return StoredFile(place, content, self._unreadable(), (), tree, unknown=True)
        label = None if kept.by_operator else kept.label
        return StoredFile(place, content, label, read(kept.refs), tree, kept.tag, unknown=not kept.ours)

    def restore(self, stored: StoredFile, *, replaces: bool = False) -> None:
        """Implement the port."""
        place, label = stored.place, PUBLIC if stored.label is None else stored.label
        if not place.parts:
            raise UnusableError
        key, other = _key(place), _marker(place)
        if stored.content is None:
            key, other = other, key
        now, across = (self._read(place, head) for head in self._objects.heads([key, other]))
        if across is not None:
            raise UnusableError
        if now is not None and not replaces:
            return
        if stored.tree is not None:
            self._say_tree(place, stored.tree)
        refs, by_operator = written(stored.refs), stored.label is None
        self._put(place, key, stored.content or b"", label, refs=refs, by_operator=by_operator, over=now)

    def label(self, stored: StoredFile, label: Label | None) -> bool:
        """Implement the port."""
        place, folder = stored.place, stored.content is None
        key = _marker(place) if folder else _key(place)
        now = self._head(place, key)
        if (now.tag if now is not None else "") != stored.state:
            return False
        content, refs, given = stored.content or b"", written(stored.refs), PUBLIC if label is None else label
        return self._put(place, key, content, given, refs=refs, by_operator=label is None, over=now)

    def clear(self) -> None:
        """Implement the port."""
        for area in Area:
            self._objects.delete(list(self._objects.below(area)))

    def _readable(self, place: FileLocation, reader: Label, *, foreign: bool, folder: bool = False) -> Sequence[_Met]:
        """Return where a path may lead in the trees that a reader may know of, the highest first, the floor's last.

        With `folder` the path is that of a folder, whose own label counts.
        """
        _, names = self._objects.folder(f"{_base(place)}/{_ABOVE}")
        trees = [replace(place, tree=name) for name in names]
        says = self._objects.heads([f"{_root(tree)}/{_LABEL}" for tree in trees])
        tops = [(place, place.floor)]
        for tree, head in zip(trees, says, strict=True):
            label = place.floor.join(self._of_tree(self._read(tree, head), tree.tree))
            if label.flows_to(reader):
                tops.append((tree, label))
        ways = [_way(one, folder=folder) for one, _ in tops]
        heads = iter(self._objects.heads([key for way in ways for key in way]))
        met = list[_Met]()
        for (one, label), way in zip(tops, ways, strict=True):
            on_way = [self._read(one, next(heads)) for _ in way]
            file = None if folder else on_way.pop()
            for passed in (*on_way, *([file] if file else ())):
                label = label.join(self._own(passed, foreign=foreign))  # noqa: PLW2901 - it rises on the way
            if label.flows_to(reader):
                met.append(_Met(one, label, file))
        return sorted(met, key=lambda one: (height(one.label), not one.place.tree), reverse=True)

    def _own(self, kept: _Kept | None, *, foreign: bool) -> Label:
        """Return the label that an object says, or that of unreadable files where there is none to say it."""
        return self._unreadable() if kept is None else kept.own(foreign=foreign)

    def _tree_for(self, place: FileLocation, label: Label) -> FileLocation:
        """Return the place for a file of this label: its own name if it is at the floor, else its tree.

        A file written before a floor was lowered is above it now, and one that another tool put there is top. Beside
        such a file, also one at the floor has a tree.
        """
        here = place.floor.join(label)
        if here.flows_to(place.floor) and self._present(place).flows_to(place.floor):
            return place
        return place.above(here)

    def _present(self, place: FileLocation) -> Label:
        """Return the join of the labels of all that is on the way to a place in its tree, PUBLIC for nothing."""
        return _joined(self._heads_on_way(place))

    def _heads_on_way(self, place: FileLocation) -> Sequence[tuple[_Kept | None, _Kept | None]]:
        """Return for each part of a path the file of that name, and the label of the folder."""
        keys = [key for keys in _beside_way(place) for key in keys]
        heads = [self._read(place, head) for head in self._objects.heads(keys)]
        return list(zip(heads[::2], heads[1::2], strict=True))

    def _make_way(self, there: FileLocation, label: Label, *, sharing: bool = False) -> None:
        """Write the labels of the tree and of new folders before the file; with `sharing` as `swap` does.

        Raises UnusableError: a file is where a folder must be, or a folder where the file must be.
        """
        steps, heads = _beside_way(there), self._heads_on_way(there)
        files, folders = [file for file, _ in heads], [folder for _, folder in heads]
        if any(file is not None for file in files[:-1]) or folders[-1] is not None:
            raise UnusableError
        if there.tree:
            self._say_tree(there, there.floor.join(label))
        for (_, marker), folder in zip(steps[:-1], folders[:-1], strict=True):
            if folder is None or (sharing and self._shareable(there, folder, label)):
                self._put(there, marker, b"", label, over=folder)

    def _shareable(self, there: FileLocation, folder: _Kept, label: Label) -> bool:
        """Say whether anybody may have given a folder the same name before, so that a TRUSTED writer gives it anew."""
        if folder.by_operator or not folder.label.untrusted or label.untrusted:
            return False
        return there.floor.join(folder.label).secrecy == there.floor.join(label).secrecy

    def _say_tree(self, there: FileLocation, label: Label) -> None:
        """Write which level and compartments a tree has, unless it says so already."""
        key = f"{_root(there)}/{_LABEL}"
        for _ in range(_TRIES):
            now = self._head(there, key)
            if (now is not None and now.label == label.secrecy) or self._put(there, key, b"", label.secrecy, over=now):
                return
        raise UnusableError

    def _of_tree(self, kept: _Kept | None, name: str) -> Label:
        """Return the level and compartments of a tree; one that does not say those of its name is not readable."""
        if kept is None or tree_of(kept.label) != name:
            return self._unreadable()
        return kept.label

    def _kept(self, place: FileLocation) -> _Kept | None:
        return self._head(place, _key(place))

    def _head(self, place: FileLocation, key: str) -> _Kept | None:
        return self._read(place, self._objects.head(key))

    def _loaded(self, place: FileLocation, most: int | None) -> tuple[_Kept, bytes]:
        """Return a file with its content. Raises AbsentError, UnusableError: it is larger than `most`."""
        head, body = self._objects.get(_key(place), None if most is None else most + _TAIL)
        kept = self._read(place, head)
        if kept is None or (most is not None and kept.size > most):
            raise UnusableError
        return kept, body[: kept.size]

    def _read(self, place: FileLocation, head: ObjectHead | None) -> _Kept | None:
        """Return an object as its metadata describes it, None for no object."""
        if head is None:
            return None
        unknown = _Kept(head.tag, head.size, self._unreadable(), ours=False)
        said, nonce = head.metadata.get(_SAYS), head.metadata.get(_WRITE, "")
        size = head.size - _TAIL
        if said is None or head.metadata.get(_SIZE) != str(size):
            return unknown
        text = self._short(place, said)
        try:
            label = self._unreadable() if text is None else parse(text)
        except LabelTextError:
            label = self._unreadable()
        refs = self._short(place, head.metadata.get(_REFS, "")) or ""
        by_operator = head.metadata.get(_BY) == _OPERATOR
        return _Kept(head.tag, size, label, ours=True, by_operator=by_operator, refs=refs, nonce=nonce)

    def _put(  # noqa: PLR0913 - an object is its bytes with all that is said of them
        self,
        place: FileLocation,
        key: str,
        content: bytes,
        label: Label,
        *,
        over: _Kept | None,
        refs: str = "",
        by_operator: bool = False,
    ) -> bool:
        """Write an object over the one that was read, None for none, and say whether it was that one still."""
        nonce = self._nonce()
        metadata = {_SAYS: self._long(place, str(label)), _SIZE: str(len(content)), _WRITE: nonce}
        if refs:
            metadata[_REFS] = self._long(place, refs)
        if by_operator:
            metadata[_BY] = _OPERATOR
        body = b"".join((content, _MARK, nonce.encode("ascii")))
        if self._objects.put(key, body, metadata, over=None if over is None else over.tag):
            return True
        # The answer to an earlier try of the library may have been lost: then this write is the one that is in the way.
        now = self._objects.head(key)
        return now is not None and now.metadata.get(_WRITE) == nonce

    def _long(self, place: FileLocation, text: str) -> str:
        """Return a text for the metadata: itself, or the digest of an object that holds it and is written first."""
        if len(text) <= _INLINE and not text.startswith(_DIGEST):
            return text
        digest = hashlib.sha256(text.encode("ascii")).hexdigest()
        self._objects.put(_long_key(place, digest), text.encode("ascii"), {}, over=None)
        return f"{_DIGEST}{digest}"

    def _short(self, place: FileLocation, said: str) -> str | None:
        """Return the text that metadata holds or names, None if it cannot be read."""
        if not said.startswith(_DIGEST):
            return said
        digest = said.removeprefix(_DIGEST)
        try:
            _, text = self._objects.get(_long_key(place, digest), None)
        except AbsentError:
            return None
        return text.decode("ascii") if hashlib.sha256(text).hexdigest() == digest else None


def _joined(heads: Sequence[tuple[_Kept | None, _Kept | None]]) -> Label:
    """Return the join of the labels of all that is there, PUBLIC for nothing."""
    return join_all(one.label for pair in heads for one in pair if one is not None)


def _found(met: _Met) -> Found:
    return Found(met.place, met.label, "" if met.file is None else met.file.tag)


def _base(place: FileLocation) -> str:
    return "/".join((place.area, *place.home))


def _root(place: FileLocation) -> str:
    """Return the key of the top folder of a place's tree."""
    return "/".join((_base(place), *((_ABOVE, place.tree) if place.tree else ())))


def _key(place: FileLocation) -> str:
    return "/".join((_root(place), *place.parts))


def _marker(folder: FileLocation) -> str:
    """Return the key of the object that has the label of a folder's name."""
    return f"{_key(folder)}/{_LABEL}"


def _long_key(place: FileLocation, digest: str) -> str:
    return f"{_base(place)}/{_LONG}/{digest}"


def _way(place: FileLocation, *, folder: bool) -> Sequence[str]:
    """Return the keys of the labels of folders on the way to a place, and of its file; of a `folder` its own label."""
    above = range(1, len(place.parts) + folder)
    markers = [_marker(replace(place, parts=place.parts[:depth])) for depth in above]
    return markers if folder else [*markers, _key(place)]


def _beside_way(place: FileLocation) -> Sequence[tuple[str, str]]:
    """Return for each part of a path the key of the file of that name, and that of the folder's label."""
    steps = [replace(place, parts=place.parts[:depth]) for depth in range(1, len(place.parts) + 1)]
    return [(_key(one), _marker(one)) for one in steps]


def _place(area: Area, key: str) -> FileLocation | None:
    """Return the place of an object's key, that of its folder for a folder's label; None if no session can name it."""
    _, *names = key.split("/")
    home = 1 if area is Area.SHARED else 2
    base, rest, tree = tuple(names[:home]), names[home:], ""
    if rest[:1] == [_ABOVE]:
        tree, rest = (rest[1] if rest[1:] else ""), rest[2:]
    if rest[-1:] == [_LABEL]:
        rest = rest[:-1]
    known = len(base) == home and (area is Area.SHARED or base[-1].isdecimal())
    if not (known and rest and all(map(plain, (*base, *rest)))):
        return None
    return FileLocation(area, base, tuple(rest), tree=tree)
