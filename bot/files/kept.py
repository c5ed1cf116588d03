"""The port by which the operator's commands move files as they are kept: copies, backups and labels.

It tells of all files, for any label, so it is not for tools. Every method blocks; call it from a thread. `LocalFiles`
and `BucketFiles` implement it beside `LabelledFiles`, and raise UnavailableError likewise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bot.files.areas import Area
from bot.files.locations import FileLocation
from bot.files.port import LabelledFiles
from bot.sessions.refs import Ref, read, written
from policy.labels import Label, parse


@dataclass(frozen=True, slots=True)
class KeptName:
    """The name of a file or a folder that is kept.

    Args:
        place: Where it is; the floor is not known and stands as PUBLIC.
        folder: Whether it is a folder.
    """

    place: FileLocation
    folder: bool = False


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or a folder as it is kept, for a copy of it elsewhere.

    Args:
        place: Where it is, as in `KeptName`.
        content: Its bytes, None for a folder.
        label: The label that is stored with it; None for the operator's, which has its folder's floor.
        refs: The sources of the content.
        tree: The level and compartments of its tree above the floor, None at the floor.
        state: The state of the object in a bucket, which changes with every write; empty for a file on disk.
        unknown: Whether another tool put it there, so that its label is that of unreadable files.
    """

    place: FileLocation
    content: bytes | None
    label: Label | None
    refs: tuple[Ref, ...] = ()
    tree: Label | None = None
    state: str = ""
    unknown: bool = False

    def same(self, other: "StoredFile") -> bool:
        """Say whether another one holds the same, under the same label; its state does not count."""
        return replace(self, state="", unknown=False) == replace(other, state="", unknown=False)

    def facts(self) -> dict[str, object]:
        """Return it by name, as a backup holds it."""
        place, tree = self.place, "" if self.tree is None else str(self.tree)
        where = {"area": place.area.value, "home": list(place.home), "parts": list(place.parts), "tree": place.tree}
        said = {"label": "" if self.label is None else str(self.label), "refs": written(self.refs), "of_tree": tree}
        return {**where, **said, "content": self.content}

    @staticmethod
    def of(facts: Mapping[str, Any]) -> "StoredFile":
        """Return the file of such facts. Raises LabelTextError, ValueError: they are no file."""
        place = FileLocation(Area(facts["area"]), tuple(facts["home"]), tuple(facts["parts"]), tree=facts["tree"])
        label, tree = (parse(facts[name]) if facts[name] else None for name in ("label", "of_tree"))
        return StoredFile(place, facts["content"], label, read(facts["refs"]), tree)


class KeptFiles(LabelledFiles, Protocol):
    """All files of a place that keeps them, without a reader."""

    def kept(self, base: FileLocation | None = None) -> Iterator[KeptName]:
        """Yield the names of all that is kept, each folder before its content, and no name that sessions cannot use.

        With a `base` those in it alone: a folder of the policy, or a workspace.

        Raises UnusableError: a part of it cannot be listed.
        """
        ...

    def take(self, name: KeptName) -> StoredFile:
        """Return a file or a folder as it is kept, of any size.

        Raises:
            AbsentError: it is not there.
            UnusableError: it cannot be read.
        """
        ...

    def restore(self, stored: StoredFile, *, replaces: bool = False) -> None:
        """Keep a file or a folder exactly as it was; its state does not count.

        Another one of that name stays as it is without `replaces`. On disk, names that differ by case alone share a
        label, which is the join then. So the caller reads it again to compare.

        Raises UnusableError: it cannot be written.
        """
        ...

    def label(self, stored: StoredFile, label: Label | None) -> bool:
        """Give a file or a folder this label, None for that of its floor, and say whether it was still as it was read.

        For the operator alone, whose word it is: the label may be lower than the present one.

        Raises UnusableError: it cannot be written.
        """
        ...

    def clear(self) -> None:
        """Delete all that is kept, names that sessions cannot use too.

        Raises UnusableError: some of it cannot be deleted.
        """
        ...
