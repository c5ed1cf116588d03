"""Runs `lockgate` quickly: the program's modules are imported once, and each process is a fork of this one.

Started with the number of a socket, on which it says that it is ready. For each byte read from it, four files come
along: what shall be standard input, output and error, pipes or thrice a terminal, and a socket on which
`tests/journeys/forked.py` writes the order, one line. It answers with the process id and, later, with the exit code.
When the first socket ends, it kills all forks.

A fork has its own environment, arguments, folder, files and signals. It ends as an interpreter does: it waits for its
threads, does what was registered for the end, and flushes its output. Only what modules do when they are imported is
shared, so none of ours may look around then; the shipped workflow definitions and the seed of hashes are shared as
well.
"""

import atexit
import fcntl
import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import termios
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Final, cast

from bot.config.workflows import load_definitions

if TYPE_CHECKING:
    from io import TextIOWrapper

ROOT: Final = Path(__file__).parents[2]
LAZY: Final = (
    *("anyio._backends._asyncio", "genai_prices.data", "importlib.resources.readers"),
    *("pydantic_ai.models.openai", "rich.console", "structlog.dev"),
)
"""What else journeys come to import, when something runs."""
_SERVING: Final = ("protocol", "endpoint", "stdio")
_LEFT_OUT: Final = ("bot.__main__", "bot.mcp.", *(f"bot.api.mcp_server.{name}" for name in _SERVING))
"""The entry point, which is run; and what takes two seconds to import and few journeys need."""
_AT_START: Final = ("PYTHON", "LANG", "LC_", "TZ")
"""How names begin that an interpreter reads when it starts: a fork cannot be given others."""
_FILES: Final = 4
NUMBER_BYTES: Final = 8
"""How long an answer is, a signed number."""


def preload() -> None:
    """Import all modules of the program and the libraries that they import later, and read what is shipped."""
    for package in ("bot", "channels", "policy"):
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not found.name.startswith(_LEFT_OUT):
                import_module(found.name)
    for name in LAZY:
        import_module(name)
    load_definitions(None, ())


def take_terminal() -> None:
    """Make standard input the terminal of this process, so that Ctrl-C reaches it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Nursery:
    """Forks for orders, and tells how the forks ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._living: dict[int, socket.socket] = {}
        self._told, self._tells = socket.socketpair()
        self._before = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT)}
        for one in (self._told, self._tells):
            one.settimeout(0)
        signal.set_wakeup_fd(self._tells.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        # Ctrl-C at the tests' terminal ends this process without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def serve(self) -> None:
        """Fork for each order; return in the forks alone."""
        self._orders.sendall(b"+")
        while True:
            ready = select([self._orders, self._told], [], [])[0]
            if self._told in ready:
                self._told.recv(4096)
                self._bury()
            if self._orders in ready:
                byte, files, _, _ = socket.recv_fds(self._orders, 1, _FILES)
                if not byte:
                    self._end()
                if self._fork(files):
                    return

    def _fork(self, files: list[int]) -> bool:
        """Fork; say whether this is the new process."""
        line = socket.socket(fileno=files.pop())
        with line.makefile() as order:
            text = order.readline()
        # Nothing, if the tests ended in the middle of it.
        pid = os.fork() if text else None
        if pid == 0:
            line.close()
            folder, arguments, environment, on_terminal = json.loads(text)
            self._become(folder, arguments, environment, files)
            if on_terminal:
                take_terminal()
                # as an interpreter has it that finds itself on one
                cast("TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
            return True
        for file in files:
            os.close(file)
        if pid is None:
            line.close()
            return False
        self._living[pid] = line
        with suppress(BrokenPipeError):
            line.sendall(_number(pid))
        return False

    def _become(self, folder: str, arguments: list[str], environment: dict[str, str], files: list[int]) -> None:
        """Be like an interpreter that was started for this."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for one in (self._orders, self._told, self._tells, *self._living.values()):
            one.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        changed = os.environ.items() ^ environment.items()
        assert not any(name.startswith(_AT_START) for name, _ in changed), f"start it afresh, not with {changed}"
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[1:] = arguments
        sys.path[0] = folder

    def _bury(self) -> None:
        """Tell how those ended who did."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with self._living.pop(ended[0]) as line, suppress(BrokenPipeError):
                    line.sendall(_number(os.waitstatus_to_exitcode(ended[1])))

    def _end(self) -> None:
        """Kill all forks, and leave."""
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os._exit(0)


def _left(end: SystemExit) -> None:
    """End as an interpreter does, but leave its memory to the system.

    To take apart all that was imported takes a fork longer than most commands, as it has to copy it for that.
    """
    if not isinstance(end.code, int | None):
        raise end
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - CPython's own first step
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - and its second
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - the program's, for a pipe that broke
                stream.flush()
    except OSError:
        raise end from None
    os._exit(end.code or 0)


def _number(value: int) -> bytes:
    return value.to_bytes(NUMBER_BYTES, "big", signed=True)


if __name__ == "__main__":
    preload()
    # Else each fork looks through all modules when it ends, and copies them for that.
    gc.freeze()
    Nursery(socket.socket(fileno=int(sys.argv.pop()))).serve()
    try:
        runpy.run_module("bot", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _left(end)
    _left(SystemExit())
