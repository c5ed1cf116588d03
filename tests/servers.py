"""Servers that tests share, one after another: to start one takes as long as many a test.

Each store is one server, or what LOCKGATE_TEST_STORES names: `sentinel` or `cluster`. Buckets have one server.
"""

import asyncio
import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from bot.store.servers.embedded_server import Supervisor
from tests.fleets import Kind, cluster, sentinels
from tests.folders import quick_folder

if TYPE_CHECKING:
    from tests.buckets import BucketServer


class _Servers(Protocol):
    """The servers of one store."""

    @property
    def url(self) -> str:
        """The store's address."""
        ...

    def empty(self) -> None:
        """Forget everything."""
        ...


@dataclass
class _One:
    """A server of our own."""

    supervisor: Supervisor

    @property
    def url(self) -> str:
        return self.supervisor.url

    def empty(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(self.supervisor.files.socket))
            line.sendall(b"FLUSHALL\r\n")
            assert line.recv(64) == b"+OK\r\n"


@dataclass
class _Server:
    """A store, and the folder whose store it is, None for nobody's."""

    store: _Servers
    folder: Path | None = None


class Servers:
    """The servers of one process of tests."""

    def __init__(self) -> None:
        self._all = list[_Server]()
        self._until = ExitStack()
        self._buckets: BucketServer | None = None

    async def at(self, folder: Path) -> str:
        """Return the address of a folder's store: the same as before, or an empty one."""
        found = next((one for one in self._all if one.folder == folder), None)
        if found is None:
            found = next((one for one in self._all if one.folder is None or not one.folder.exists()), None)
            if found is None:
                found = await self._started()
            # At once, so that nobody else takes it meanwhile.
            found.store.empty()
            found.folder = folder
        return found.store.url

    async def place(self, data: Path, *, embedded: bool = False) -> dict[str, str]:
        """Return the environment that names a data folder, and its store unless that is to be `embedded`."""
        place = {"LOCKGATE_DATA_DIR": str(data)}
        return place if embedded else {**place, "LOCKGATE_STORE_URL": await self.at(data)}

    def buckets(self) -> "BucketServer":
        """Return the server of buckets."""
        if self._buckets is None:
            # Its library is large, and few tests need it.
            from tests.buckets import BucketServer  # noqa: PLC0415

            self._buckets = BucketServer()
            self._until.callback(self._buckets.close)
        return self._buckets

    def release(self) -> None:
        """Let the stores of all folders go: a test is over."""
        for server in self._all:
            server.folder = None

    async def _started(self) -> _Server:
        server = _Server(await asyncio.to_thread(self._start))
        self._all.append(server)
        return server

    def _start(self) -> _Servers:
        kind = os.environ.get("LOCKGATE_TEST_STORES")
        if kind == Kind.CLUSTER:
            return self._until.enter_context(cluster())
        if kind == Kind.SENTINEL:
            return self._until.enter_context(sentinels())
        supervisor = Supervisor(Path(self._until.enter_context(quick_folder())))
        asyncio.run(supervisor.attach())
        self._until.callback(lambda: asyncio.run(supervisor.detach()))
        return _One(supervisor)

    def close(self) -> None:
        """End all of them."""
        self._until.close()


SERVERS: Final = Servers()
