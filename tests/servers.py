"""Store servers that tests take one after another: to start one takes as long as many a test."""

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.store.embedded_server import Supervisor
from tests.folders import quick_folder

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


@dataclass
class _Server:
    """A server, the place of its files, and the folder whose store it is, None for nobody's."""

    supervisor: Supervisor
    place: "TemporaryDirectory[str]"
    folder: Path | None = None

    def empty(self) -> None:
        """Forget everything."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(self.supervisor.files.socket))
            line.sendall(b"FLUSHALL\r\n")
            assert line.recv(64) == b"+OK\r\n"


class Servers:
    """The servers of one process of tests."""

    def __init__(self) -> None:
        self._all = list[_Server]()

    async def at(self, folder: Path) -> str:
        """Return the address of a folder's store: the same as before, or an empty one."""
        found = next((one for one in self._all if one.folder == folder), None)
        if found is None:
            found = next((one for one in self._all if one.folder is None or not one.folder.exists()), None)
            if found is None:
                found = await self._started()
            # At once, so that nobody else takes it meanwhile.
            found.empty()
            found.folder = folder
        return found.supervisor.url

    async def place(self, data: Path, *, embedded: bool = False) -> dict[str, str]:
        """Return the environment that names a data folder, and its store unless that is to be `embedded`."""
        place = {"LOCKGATE_DATA_DIR": str(data)}
        return place if embedded else {**place, "LOCKGATE_STORE_URL": await self.at(data)}

    def release(self) -> None:
        """Let the stores of all folders go: a test is over."""
        for server in self._all:
            server.folder = None

    async def _started(self) -> _Server:
        place = quick_folder()
        server = _Server(Supervisor(Path(place.name)), place)
        await server.supervisor.attach()
        self._all.append(server)
        return server

    def close(self) -> None:
        """End all of them."""
        for server in self._all:
            asyncio.run(server.supervisor.detach())
            server.place.cleanup()


SERVERS: Final = Servers()
