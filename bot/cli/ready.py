"""How `lockgate run` tells that it is ready: in a file of the data directory, and to a service manager.

Each process writes a file of its own under `ready/` every two seconds and removes it when it ends. So an older file
tells of a process that is gone. `lockgate doctor --ready` reads them and needs no store.
"""

import asyncio
import json
import os
import platform
import re
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio

from bot.cli.output import print_json, print_lines
from bot.core.clock import Clock
from bot.core.errors import OperatorError
from bot.core.json_values import JsonObject, flag, objects, text, whole_object
from bot.operations.readiness import Missing, Readiness
from channels.console import visible

FOLDER: Final = "ready"
NOBODY: Final = "no process of `lockgate run` is there, start one"
SILENT: Final = "it has told nothing for {} seconds"

_INTERVAL: Final = 2.0
"""Seconds between two looks."""

_STALE_MS: Final = 15_000
"""The time for which a silent process counts as alive; a killed one is not reported any longer."""

_GONE_MS: Final = 60_000
"""After how long its file is removed."""


def machine() -> str:
    """Return the name of this machine or container as names of files have it.

    Containers that share a data directory have the same process ids.
    """
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:64]


class ReadinessFile:
    """The file in which this process tells whether it is ready; `environment` may name a service manager's socket."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self._path = data_dir / FOLDER / f"{os.getpid()}@{machine()}.json"
        self._notify = environment.get("NOTIFY_SOCKET", "")
        self._told = False
        self._over = False
        self._writing = threading.Lock()

    def write(self, readiness: Readiness) -> None:
        """Tell whether it is ready, unless it is over. It blocks. A full disk keeps it from nothing but telling."""
        with self._writing:
            if not self._over:
                self._write(readiness)

    def _write(self, readiness: Readiness) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(readiness.document()), encoding="utf-8")
            new.replace(self._path)
        if readiness.ready and not self._told:
            self._told = True
            self.notify("READY=1")

    def remove(self) -> None:
        """Tell nothing any more. It blocks. A late thread reports nothing."""
        with self._writing, suppress(OSError):
            self._over = True
            self._path.unlink(missing_ok=True)

    def notify(self, state: str) -> None:
        """Tell a service manager of a state, as `sd_notify` does, if one asked for it."""
        if not self._notify:
            return
        # A name that begins with `@` is none of a file.
        address = f"\0{self._notify[1:]}" if self._notify.startswith("@") else self._notify
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
            manager.sendto(state.encode("utf-8"), address)


@asynccontextmanager
async def telling(file: ReadinessFile, look: Callable[[], Awaitable[Readiness]]) -> AsyncGenerator[None]:
    """Tell every two seconds until the block ends whether this process is ready."""

    async def tell() -> None:
        while True:
            await asyncio.to_thread(file.write, await look())
            await asyncio.sleep(_INTERVAL)

    async with asyncio.TaskGroup() as tasks:
        going = tasks.create_task(tell())
        try:
            yield
        finally:
            going.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.to_thread(file.remove)


def found(data_dir: Path, clock: Clock, on: str = "*") -> list[Readiness]:
    """Return the last states of the processes of a data directory, and remove the files of those that are gone.

    With `on`, only the processes of that machine count.
    """
    told = list[Readiness]()
    for path in sorted((data_dir / FOLDER).glob(f"*@{on}.json")):
        with suppress(OSError):
            # One of later on is of before a clock was set back: who is there writes anew.
            age = abs(clock.wall_ms() - path.stat().st_mtime_ns // 1_000_000)
            if age > _GONE_MS:
                path.unlink(missing_ok=True)
                continue
            readiness = _read(path.read_bytes())
            silent = (Missing("process", SILENT.format(age // 1000)),) if age > _STALE_MS else ()
            told.append(Readiness(readiness.role, (*silent, *readiness.missing)))
    return told


def require_none(data_dir: Path, clock: Clock) -> None:
    """See that no process of `lockgate run` uses a data directory. Raises OperatorError."""
    if found(data_dir, clock):
        raise OperatorError(
            f"processes of `lockgate run` use `{data_dir}`",
            next_step="stop them, and wait a minute if one was killed",
        )


def ready(data_dir: Path, clock: Clock, *, as_json: bool) -> int:
    """Print whether the processes of a data directory are ready; return 0 if there are some and all are, else 1."""
    told = found(data_dir, clock)
    if as_json:
        print_json([one.document() for one in told])
    else:
        print_lines(line for one in told for line in _lines(one))
        print_lines([] if told else [NOBODY])
    return 0 if told and all(one.ready for one in told) else 1


def _lines(one: Readiness) -> list[str]:
    if one.ready:
        return [f"ready  {one.role}"]
    return [f"wait   {one.role}, {visible(str(missing))}" for missing in one.missing]


def _read(written: bytes) -> Readiness:
    """Read a file; one that cannot be read tells of a process that is not ready."""
    try:
        document: JsonObject = whole_object(json.loads(written))
        missing = tuple(
            Missing(text(one, "subject"), text(one, "problem"), text(one, "next_step", ""))
            for one in objects(document, "missing")
        )
        if flag(document, "ready") is not bool(missing):
            return Readiness(text(document, "role"), missing)
    except (ValueError, KeyError, TypeError):
        pass
    return Readiness("process", (Missing("process", "its file cannot be read"),))
