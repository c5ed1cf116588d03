"""The port to labelled files, which the places that keep them implement.

Every method blocks, on a disk or on a network: call it from a thread. One contract test holds for all implementations.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from bot.files.locations import FileLocation, encoded
from bot.sessions.refs import Ref
from policy.labels import Label

LIMIT: Final = 1_000_000
"""Bytes of the largest text file that is read or written."""

COMPARED: Final = 64_000_000
"""Bytes of the largest file that `swap` compares."""

BESIDE: Final = ".bak"
"""The end of the name under which `swap` keeps the earlier content."""


class AbsentError(Exception):
    """There is nothing, or nothing that may be touched."""


class UnusableError(Exception):
    """It is there and cannot be used: too large, not text, not writable."""


class UnavailableError(UnusableError):
    """The place that keeps the files does not answer, or refuses; nothing is known of any file.

    `str()` says why, and `next_step` names the operator's remedy.
    """

    def __init__(self, message: str, *, next_step: str) -> None:
        super().__init__(message)
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there.

    Args:
        place: Which of those of its name it is.
        label: Its label, with the floor joined in.
        state: The state of the object in a bucket, which changes with every write; empty for a file on disk.
    """

    place: FileLocation
    label: Label
    state: str = ""


class LabelledFiles(Protocol):
    """The shared file root and the sessions' workspaces.

    Beside the named errors, every method raises UnavailableError while the place that keeps the files does not answer,
    or refuses.
    """

    def origin(self, found: Found) -> tuple[Ref, ...]:
        """Return the sources of a file's content, as its writer left them; nothing for the operator's files."""
        ...

    def every(self, place: FileLocation, reader: Label) -> tuple[Found, ...]:
        """Return all files of a name that a reader may know of, the highest first."""
        ...

    def find(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> Found | None:
        """Return the highest file of a name that a reader may know of, None if there is none.

        Of two that neither is above the other, the order of labels' texts decides. That holds in a workspace, too: a
        file that its session wrote there by reference may be above it. With `foreign`, a file that a session wrote is
        UNTRUSTED.
        """
        ...

    def load(self, place: FileLocation, most: int) -> bytes:
        """Return the content of a file, of at most `most` bytes.

        Raises:
            AbsentError: there is no such file.
            UnusableError: it is larger.
        """
        ...

    def list(self, place: FileLocation, reader: Label, *, foreign: bool = False) -> tuple[tuple[str, Label], ...]:
        """Return the names in a folder that a reader may know of, with their labels; folders end with `/`.

        Every file of a name is listed, a folder once. A base without any written file is empty. `foreign` is as for
        `find`.

        Raises AbsentError: there is no such folder.
        """
        ...

    def keep(
        self, place: FileLocation, content: bytes, label: Label, *, replaces: bool = True, refs: tuple[Ref, ...] = ()
    ) -> None:
        """Write a file whose content has this label, which is joined with the label of the file it replaces.

        It replaces the file of its own level and compartments alone, and with `replaces` unset none. The names of new
        folders get the label too. `refs`, the sources of the content, stand beside the label.

        Raises UnusableError: it cannot be written.
        """
        ...

    def written(self, place: FileLocation, label: Label) -> Found:
        """Return the place where a file of this label is written, and the label of the file there.

        See `owned` for its writer.
        """
        ...

    def owned(self, place: FileLocation) -> bool:
        """Say whether a session, or we, wrote a file; the operator wrote a file that no writer labelled."""
        ...

    def swap(
        self, place: FileLocation, content: bytes, label: Label, *, expected: bytes | None, refs: tuple[Ref, ...] = ()
    ) -> bool:
        """Write a file as `keep` does if its present content is `expected`, None for no file, and say whether it was.

        The old content is beside it afterwards, under its name with `BESIDE`, with its label. The file has its new
        label alone, as its content is made of nothing that was there.

        Raises UnusableError: it cannot be written.
        """
        ...

    def sessions(self) -> Iterator[str]:
        """Yield the ids of the sessions that have a workspace, as far as they are asked for: there may be a million."""
        ...

    def forget(self, sid: str, before: int) -> bool:
        """Delete a session's workspaces of generations before this one; return whether nothing of them is left."""
        ...

    def begin(self, files: Mapping[str, str]) -> None:
        """Keep the texts of a first run, by their paths in the file root, unless there is or was a file root.

        They are the operator's. Several processes may do so at once.

        Raises UnusableError: they cannot be written.
        """
        ...


def text_of(files: LabelledFiles, place: FileLocation) -> str:
    """Return a file's text.

    Raises:
        AbsentError: there is no such file.
        UnusableError: it is not UTF-8 text of at most LIMIT bytes.
    """
    try:
        return files.load(place, LIMIT).decode("utf-8")
    except UnicodeDecodeError:
        raise UnusableError from None


def keep_text(
    files: LabelledFiles,
    place: FileLocation,
    text: str,
    label: Label,
    *,
    replaces: bool = True,
    refs: tuple[Ref, ...] = (),
) -> None:
    """Write a text file, as `LabelledFiles.keep` does.

    Raises UnusableError: it cannot be written, or is larger than LIMIT bytes.
    """
    content = encoded(text)
    if len(content) > LIMIT:
        raise UnusableError
    files.keep(place, content, label, replaces=replaces, refs=refs)
