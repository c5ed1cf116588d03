"""Lines from a keyboard or a pipe.

Reading must not stop the loop, and an abandoned read must not keep the process alive. So one daemon thread reads, and
reads only when a line is asked for. Lines are checked before they are acted on.
"""

import asyncio
import threading
import unicodedata
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

_BYTES_PER_CHARACTER: Final = 4
_CHUNK: Final = 65_536
_ALLOWED: Final = frozenset("\t")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not taken, and why in one sentence."""

    reason: str


Line = str | BadLine | None
"""A line without its end, a line that is not taken, or None at the end of input."""


class Lines(Protocol):
    """A source of lines."""

    async def next(self) -> Line:
        """Return the next line; a call that was cancelled left its line to the next call."""
        ...


class LineReader:
    """Reads lines of at most `longest` characters; a longer line is skipped, not kept."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._stream = stream
        self._longest = longest
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        self._asked = False
        self._thread: threading.Thread | None = None

    async def next(self) -> Line:
        """Return the next line; a call that was cancelled left its line to the next call."""
        self.ask()
        line = await self._lines.get()
        self._asked = False
        return line

    def ask(self) -> None:
        """Begin to read a line without waiting for it."""
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._read_all, args=(loop,), name="console-input", daemon=True)
            self._thread.start()
        if not self._asked:
            self._asked = True
            self._wanted.release()

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        line: Line = ""
        while line is not None:
            self._wanted.acquire()
            line = self._read()
            try:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed: nobody is left to read for

    def _read(self) -> Line:
        most = self._longest * _BYTES_PER_CHARACTER + 2
        try:
            raw = self._stream.readline(most)
            cut = len(raw) == most and not raw.endswith(b"\n")
            while cut and (more := self._stream.readline(_CHUNK)) and not more.endswith(b"\n"):
                pass
        except (OSError, ValueError):
            return None
        if not raw:
            return None
        return BadLine(self._too_long()) if cut else self._checked(raw)

    def _checked(self, raw: bytes) -> Line:
        try:
            text = raw.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            return BadLine("that line is not UTF-8, it was not sent")
        if len(text) > self._longest:
            return BadLine(self._too_long())
        if any(unicodedata.category(char) == "Cc" and char not in _ALLOWED for char in text):
            return BadLine("that line holds control characters, it was not sent")
        return text

    def _too_long(self) -> str:
        return f"that line is longer than {self._longest} characters, it was not sent"
