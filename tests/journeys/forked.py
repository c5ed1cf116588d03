"""A process that was forked instead of started, to be treated like a `subprocess.Popen`."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from select import select
from threading import Lock, Thread
from types import TracebackType
from typing import BinaryIO, Final, Self

from tests.journeys.nursery import NUMBER_BYTES, ROOT

_LOCK: Final = Lock()
_PATIENCE: Final = 120.0


def inherited() -> dict[str, str]:
    """Return the environment that a process gets from these tests: nothing of the program's, and byte code is kept."""
    left_out = ("LOCKGATE_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(ROOT)}


class Forked:
    """A process of its own, with pipes or on a terminal, made by the nursery of this test process.

    `terminal` is the file of the process's end of a terminal. Raises RuntimeError: the nursery is gone.
    """

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], terminal: int | None = None
    ) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        self._line, theirs = socket.socketpair()
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None
        self.stderr: BinaryIO | None = None
        given = self._piped() if terminal is None else [os.dup(terminal) for _ in range(3)]
        try:
            socket.send_fds(_nursery()[0], [b"+"], [*given, theirs.fileno()])
        finally:
            theirs.close()
            for file in given:
                os.close(file)
        order = [str(folder), self.args, dict(environment), terminal is not None]
        self._line.sendall(json.dumps(order).encode() + b"\n")
        self.pid = self._answer()

    def _piped(self) -> list[int]:
        """Make pipes, and return the process's ends."""
        (read, stdin), (stdout, write), (stderr, write_error) = (os.pipe() for _ in range(3))
        self.stdin, self.stdout, self.stderr = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")
        return [read, write, write_error]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for its end; end it if the block failed."""
        if kind is not None:
            self.kill()
        self._close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal; None while it runs."""
        if self.returncode is None and select([self._line], [], [], 0)[0]:
            self.returncode = self._answer()
            self._line.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended.

        `timeout` is in seconds. Raises subprocess.TimeoutExpired: it still runs.
        """
        if self.returncode is None:
            select([self._line], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(
        self,
        input: bytes | None = None,  # noqa: A002 - as `subprocess` calls it
        timeout: float | None = None,
    ) -> tuple[bytes, bytes]:
        """Type something, close standard input, and return all that was told until the end.

        `timeout` is in seconds, for each of the pipes. Raises subprocess.TimeoutExpired: it still runs.
        """
        assert self.stdout is not None
        assert self.stderr is not None
        told: dict[BinaryIO, bytes] = {self.stdout: b"", self.stderr: b""}

        def read(pipe: BinaryIO) -> None:
            told[pipe] = pipe.read()

        readers = [Thread(target=read, args=(pipe,), daemon=True) for pipe in told if not pipe.closed]
        writer = Thread(target=self._type, args=(input or b"",), daemon=True)
        for thread in (writer, *readers):
            thread.start()
        for thread in (writer, *readers):
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        self._close()
        return told[self.stdout], told[self.stderr]

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _type(self, typed: bytes) -> None:
        if self.stdin is not None and not self.stdin.closed:
            # Who reads no more does not have to.
            with suppress(BrokenPipeError):
                self.stdin.write(typed)
            with suppress(BrokenPipeError):
                self.stdin.close()

    def _close(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _answer(self) -> int:
        answer = self._line.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        if not answer:
            raise RuntimeError("the nursery is gone")
        return int.from_bytes(answer, "big", signed=True)


def nursery() -> int:
    """Return the process id of the nursery of this test process."""
    return _nursery()[1]


def _nursery() -> tuple[socket.socket, int]:
    with _LOCK:
        return _started()


@cache
def _started() -> tuple[socket.socket, int]:
    """Start the nursery of this test process, which it does not outlive; return once it has imported everything."""
    ours, theirs = socket.socketpair()
    pipe = subprocess.PIPE
    with theirs:
        made = subprocess.Popen(
            [sys.executable, "-m", "tests.journeys.nursery", str(theirs.fileno())],
            cwd=ROOT,
            env=inherited(),
            # pipes like those of the processes, so that its streams are what theirs have to be
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            pass_fds=[theirs.fileno()],
        )
    if not ours.recv(1):
        raise RuntimeError(made.communicate()[1].decode())

    def end() -> None:
        ours.close()
        made.communicate(timeout=_PATIENCE)

    atexit.register(end)
    return ours, made.pid
