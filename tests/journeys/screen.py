"""A pseudo-terminal with a command on it, `lockgate chat` for one, read as a person reads it: the screen and above."""

import fcntl
import os
import re
import select
import struct
import termios
import time
from pathlib import Path
from typing import Final

import pyte

from tests.journeys.machine import Machine

LINES: Final = 40
COLUMNS: Final = 160
PATIENCE: Final = 120.0

_WORK: Final = re.compile(r"· .+, \d+ s|working|reading|writing")


class Terminal:
    """A command of `lockgate` on a terminal; `raw` is all that it wrote."""

    def __init__(self, machine: Machine, term: str = "xterm", *, command: str = "chat", **environment: str) -> None:
        self.process, self._descriptor = machine.on_terminal(*command.split(), TERM=term, **environment)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.screen = pyte.HistoryScreen(COLUMNS, LINES, history=10_000)
        self.raw = b""
        self._stream = pyte.ByteStream(self.screen)
        self._mark = 0

    def lines(self) -> list[str]:
        """Return every line that is shown, also those that went off the top."""
        gone = ["".join(row[column].data for column in range(COLUMNS)) for row in self.screen.history.top]
        return [line.rstrip() for line in (*gone, *self.screen.display)]

    def shown(self) -> str:
        """Return what is shown from the prompt on at which the last expectation was met."""
        return "\n".join(self.lines()[self._mark :])

    def until(self, *expected: str, seconds: float = PATIENCE) -> str:
        """Read until these are shown, one after the other; return what is shown since the last time.

        What ends with `> ` is a prompt behind which nothing is typed.
        """
        deadline = time.monotonic() + seconds
        while not _in_order(self.shown(), expected):
            assert time.monotonic() < deadline, f"{expected!r} was not shown: {self.shown()!r}"
            self.read(0.1)
        found = self.shown()
        lines, self._mark = self.lines(), len(self.screen.history.top) + self.screen.cursor.y
        # The lines of work under way are drawn with the prompt, and go.
        while self._mark and _WORK.fullmatch(lines[self._mark - 1]):
            self._mark -= 1
        return found

    def read(self, seconds: float) -> None:
        """Take in what comes within a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], left)[0]:
                try:
                    data = os.read(self._descriptor, 65_536)
                except OSError:
                    # Nobody has the other end open any more.
                    return
                self.raw += data
                self._stream.feed(data)
                return

    def type(self, text: str) -> None:
        """Press keys, one after the other."""
        os.write(self._descriptor, text.encode())

    def paste(self, text: str) -> None:
        """Paste a text, as a terminal with bracketed paste does."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def ends(self) -> int:
        """Read until the program ends, and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while (code := self.process.poll()) is None:
            assert time.monotonic() < deadline, self.shown()
            self.read(0.1)
        self.read(0.1)
        return code

    def close(self) -> None:
        """End the program."""
        self.process.kill()
        self.process.wait()
        os.close(self._descriptor)


def history_file(machine: Machine) -> Path:
    """Return where the lines are kept that were typed."""
    return machine.data / "console-history"


def _in_order(shown: str, expected: tuple[str, ...]) -> bool:
    at = 0
    for text in expected:
        pattern = f"{re.escape(text.rstrip())}[ ]*$" if text.endswith("> ") else re.escape(text)
        match = re.compile(pattern, re.MULTILINE).search(shown, at)
        if match is None:
            return False
        at = match.end()
    return True
