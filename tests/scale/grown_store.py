"""The store of an installation while no process uses it: how large it is, and how long its server takes to begin."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

from redis import Redis

from bot.store.servers.embedded_server import Supervisor
from tests.scale.copies import Keys

_NEAR: Final = 0.95
"""How near to the length at which the server rewrites its file by itself that file is brought."""

_BATCH: Final = 200
_MOMENT: Final = 0.005
_ANSWER: Final = b"You said"

_ANCHORS: Final = """
import sys, time
from pathlib import Path
from bot.audit.chain import AnchorFile

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS:")) * 1024

before, begin = resident(), time.perf_counter()
heads = AnchorFile(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()).heads()
print(time.perf_counter() - begin, resident() - before)
"""


class GrownStore:
    """The store in an installation's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    @classmethod
    def at(cls, folder: str | Path) -> "GrownStore":
        """Make the folder of an installation in another one."""
        path = Path(folder) / "installation"
        path.mkdir()
        return cls(path)

    def keys(self) -> Keys:
        """Return the keys that the installation made for itself."""
        return Keys(*((self.data / "keys" / name).read_bytes() for name in ("session", "audit")))

    @property
    def socket(self) -> Path:
        """The socket of its server, while that runs."""
        return Path((self.data / "store" / "socket").read_text(encoding="utf-8"))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        """Start the server and yield a client of it."""
        supervisor = Supervisor(self.data)
        await supervisor.attach()
        try:
            # The library leaves its signatures untyped.
            client = cast("Any", Redis).from_url(supervisor.url)
            try:
                yield client
            finally:
                await asyncio.to_thread(client.close)
        finally:
            await supervisor.detach()

    async def begun(self) -> float:
        """Return the seconds that the server takes to begin, with what it has on its disk."""
        supervisor, begin = Supervisor(self.data), time.perf_counter()
        await supervisor.attach()
        taken = time.perf_counter() - begin
        await supervisor.detach()
        return taken

    async def first_answer(self) -> float:
        """Return the seconds from the start of `lockgate chat` to an answer, where neither it nor its server runs."""
        return await asyncio.to_thread(self._first_answer)

    def _first_answer(self) -> float:
        command = [sys.executable, "-m", "bot", "--config", str(self.folder / "config.yaml"), "chat"]
        environment = {**os.environ, "LOCKGATE_DATA_DIR": str(self.data)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        begin = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"When is it?\n")
            process.stdin.flush()
            answered = any(_ANSWER in line for line in process.stdout)
            taken = time.perf_counter() - begin
            process.stdin.close()
            process.wait(60)
        if not answered:
            raise RuntimeError("`lockgate chat` ended without an answer")
        return taken

    def anchors_read(self) -> tuple[float, float]:
        """Return the seconds, and the bytes of memory, that the anchors take a process which reads them."""
        command = [sys.executable, "-c", _ANCHORS, str(self.data / "anchors"), str(self.data / "keys" / "audit")]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return float(told[0]), float(told[1])


def information(client: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's client
    """Return the server's facts about itself."""
    return client.info("all")


async def rewritten(client: Any) -> float:  # noqa: ANN401 - as above
    """Have the server rewrite its file; return the seconds that it took."""
    await _idle(client)
    begin = time.perf_counter()
    client.bgrewriteaof()
    await _idle(client)
    return time.perf_counter() - begin


async def _idle(client: Any) -> None:  # noqa: ANN401 - as above
    names = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
    while any(client.info("persistence")[name] for name in names):  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(_MOMENT)


def lengthened(client: Any, write: Callable[[range], None], beyond: int) -> None:  # noqa: ANN401 - as above
    """Let the server's file grow until it is nearly rewritten; `write` passes sessions `beyond` this number through."""
    options = client.config_get("auto-aof-rewrite-*")
    percent, least = int(options["auto-aof-rewrite-percentage"]), int(options["auto-aof-rewrite-min-size"])
    most = max(client.info("persistence")["aof_base_size"] * (1 + _NEAR * percent / 100), _NEAR * least)
    numbers = range(beyond, beyond + _BATCH)
    while client.info("persistence")["aof_current_size"] < most:
        write(numbers)
