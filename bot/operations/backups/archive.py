"""The file of a backup: frames, each authenticated together with all before it.

The first line names the format. Each frame is its length, a MessagePack value and a MAC over that value and the MAC of
the frame before. So no frame can be changed, removed, moved or added. The last frame says so, thus a file that was
cut off shows. The key comes from the audit key of the installation and is not in the file. Both ways hold one frame at
a time. It blocks on the disk: call it from a thread.
"""

import hashlib
import hmac
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none

from bot.core.errors import DiskError, OperatorError

FORMAT: Final = 1

_NAME: Final = b"lockgate backup "
_FIRST: Final = b"%s%d\n" % (_NAME, FORMAT)
_PURPOSE: Final = b"lockgate backup 1 frames"
_LENGTH: Final = 4
_MAC: Final = 32
_LONGEST: Final = 2**30
"""Bytes of the longest frame."""

_END: Final = "end"
_PRIVATE: Final = 0o600
_AGAIN: Final = "copy the file again, or take another backup"

# The library leaves its signatures untyped.
_packb: Final = cast("Any", msgpack).packb
_unpackb: Final = cast("Any", msgpack).unpackb


@dataclass(frozen=True, slots=True)
class ArchiveFrame:
    """A frame: its kind, its facts by name, and bytes or lists of bytes in them as they are."""

    kind: str
    facts: Mapping[str, Any]


class ArchiveWriter:
    """Writes a backup under another name, and gives it its own when it is whole. Raises DiskError throughout."""

    def __init__(self, path: Path, audit_key: bytes) -> None:
        if os.path.lexists(path):
            raise OperatorError(f"`{path}` is there already", next_step="give the backup another name")
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.new")
        self._key, self._mac = _key(audit_key), _FIRST
        with _told(path):
            descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE)
        self._file = os.fdopen(descriptor, "wb")
        self._put(_FIRST)

    def close(self) -> None:
        """Close it and remove the draft; a finished file has its own name."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._draft.unlink()

    def write(self, frame: ArchiveFrame) -> None:
        """Write a frame. Raises DiskError: there is no room."""
        body: bytes = _packb([frame.kind, frame.facts], use_bin_type=True)
        if len(body) > _LONGEST:
            raise OperatorError("a record of the store is too large for a backup")
        self._mac = hmac.digest(self._key, self._mac + body, hashlib.sha256)
        self._put(len(body).to_bytes(_LENGTH) + body + self._mac)

    def finish(self, counts: Mapping[str, int]) -> str:
        """Write the last frame and give the file its name; return the digest by which the audit knows it.

        Raises DiskError: there is no room. OperatorError: another file got that name meanwhile.
        """
        self.write(ArchiveFrame(_END, counts))
        with _told(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                # A link, unlike a rename, replaces no file.
                self._path.hardlink_to(self._draft)
            except FileExistsError:
                raise OperatorError(f"`{self._path}` is there already", next_step="give another name") from None
            _synced(self._path.absolute().parent)
        return self._mac.hex()

    def _put(self, content: bytes) -> None:
        with _told(self._path):
            self._file.write(content)


class ArchiveReader:
    """Reads a backup, as often as is asked for, from one open file. `keys` are the audit keys that may have made it."""

    def __init__(self, path: Path, keys: Sequence[bytes]) -> None:
        """Open it. Raises OperatorError: it cannot be read, or is no backup of this format."""
        self._path, self._keys = path, [_key(key) for key in keys]
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise OperatorError(f"`{path}` cannot be read: {error.strerror}") from None
        self._digest = ""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    @property
    def digest(self) -> str:
        """The digest by which the audit knows the file, once it was read to its end."""
        return self._digest

    def frames(self) -> Iterator[ArchiveFrame]:
        """Yield its frames from the beginning, each checked before, and the last one too.

        Raises OperatorError: it was changed or cut off, is of another installation, or cannot be read.
        """
        file = self._file
        try:
            file.seek(0)
            self._begin(file)
            key, mac, number = b"", _FIRST, 0
            while True:
                number += 1
                body, told = self._frame(file)
                keys = [key] if key else self._keys
                mac, key = self._followed(keys, mac, (body, told), number)
                frame = _frame_of(body)
                if frame.kind == _END and file.read(1):
                    raise _changed(self._path, "something follows its end")
                if frame.kind == _END:
                    self._digest = mac.hex()
                yield frame
                if frame.kind == _END:
                    return
        except OSError as error:
            raise OperatorError(f"`{self._path}` cannot be read: {error.strerror}") from None

    def _begin(self, file: BinaryIO) -> None:
        first = file.readline(64)
        if not first.startswith(_NAME):
            raise OperatorError(f"`{self._path}` is not a backup", next_step="give a file of `lockgate backup`")
        if first != _FIRST:
            raise OperatorError(
                f"`{self._path}` is a backup of another format", next_step="use the version of lockgate that made it"
            )

    def _frame(self, file: BinaryIO) -> tuple[bytes, bytes]:
        length = int.from_bytes(_read(file, _LENGTH, self._path))
        if length > _LONGEST:
            raise _changed(self._path, "a length in it is impossible")
        return _read(file, length, self._path), _read(file, _MAC, self._path)

    def _followed(
        self, keys: Iterable[bytes], before: bytes, frame: tuple[bytes, bytes], number: int
    ) -> tuple[bytes, bytes]:
        """Return the MAC of a frame and the key that made it."""
        body, told = frame
        for key in keys:
            mac = hmac.digest(key, before + body, hashlib.sha256)
            if hmac.compare_digest(mac, told):
                return mac, key
        if number == 1:
            raise OperatorError(
                f"`{self._path}` was changed, or it was made with another audit key",
                next_step="put the `keys` folder of that installation into the data directory, or copy the file again",
            )
        raise _changed(self._path, f"frame {number} is not the one that was written")


def _frame_of(body: bytes) -> ArchiveFrame:
    kind, facts = _unpackb(body, raw=False, strict_map_key=True)
    return ArchiveFrame(kind, facts)


def is_end(frame: ArchiveFrame) -> bool:
    """Say whether a frame is the last one, whose facts are counts."""
    return frame.kind == _END


def _key(audit_key: bytes) -> bytes:
    return hmac.digest(audit_key, _PURPOSE, hashlib.sha256)


def _read(file: BinaryIO, size: int, path: Path) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise _changed(path, "its end is missing")
    return content


def _changed(path: Path, reason: str) -> OperatorError:
    return OperatorError(f"`{path}` is not as it was written, {reason}", next_step=_AGAIN)


def _synced(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"the backup `{path}` cannot be written: {error.strerror}", next_step="make room, or name another place"
        ) from None
