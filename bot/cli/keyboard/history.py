"""The lines that a person typed at this terminal, kept in one private file of the data directory.

Each line has the conversation that it was typed in. When that conversation was reset or deleted, its lines go too:
forgotten text must not come back with the arrow keys.
"""

import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

NAME: Final = "console-history"
"""The file's name in the data directory."""

MOST: Final = 1000
"""Lines that are kept, the newest."""

_LARGEST: Final = 16_000_000
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class TypedLine:
    """A line, and the conversation that it was typed in: the session's id and its generation."""

    sid: str
    generation: int
    text: str


class LineHistory:
    """Keeps lines in `path`; where that cannot be used they are kept as long as the process runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = list[TypedLine]()

    @property
    def lines(self) -> tuple[TypedLine, ...]:
        """All lines, the oldest first."""
        return tuple(self._lines)

    def load(self) -> None:
        """Read the lines of earlier processes; damaged lines, and a file of another person, are left out."""
        with suppress(OSError, UnicodeDecodeError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and found.st_size <= _LARGEST:
                    os.fchmod(descriptor, _PRIVATE)
                    read = (_line(line) for line in file.read().decode().splitlines())
                    self._lines = [line for line in read if line is not None][-MOST:]

    def add(self, line: TypedLine) -> None:
        """Keep a line, unless it is the same as the one before."""
        if self._lines and self._lines[-1] == line:
            return
        self._lines.append(line)
        if len(self._lines) > MOST:
            del self._lines[: -MOST // 2]
            self._write()
            return
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path, flags, _PRIVATE), "wb") as file:
                file.write(_written(line))

    def keep(self, wanted: Callable[[TypedLine], bool]) -> frozenset[str]:
        """Forget every line that is not wanted, on disk too; return the texts of those that are gone."""
        left = [line for line in self._lines if wanted(line)]
        gone = frozenset(line.text for line in self._lines).difference(line.text for line in left)
        if len(left) != len(self._lines):
            self._lines = left
            self._write()
        return gone

    def _write(self) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            beside.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(beside, flags, _PRIVATE), "wb") as file:
                file.writelines(map(_written, self._lines))
            beside.replace(self._path)


def _written(line: TypedLine) -> bytes:
    return f"{json.dumps(asdict(line))}\n".encode()


def _line(text: str) -> TypedLine | None:
    try:
        found = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None
    match found:
        case {"sid": str(sid), "generation": int(generation), "text": str(said)}:
            return TypedLine(sid, generation, said)
        case _:
            return None
