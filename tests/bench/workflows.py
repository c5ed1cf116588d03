"""A checkpoint of a workflow: the commit with its row of the audit, and the state file written through.

Measured is `WorkflowKeeper.checkpoint` in a workflow of the eight steps of `seven-step` and up to fifty events: what a
person changed of the file is looked for, the log is compared and set, and the file is written anew with its copy beside
it. The reference is one exchange that appends as many bytes to a list, and the same text written beside, synced and
renamed, with its folder synced.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from redis.asyncio import Redis

from bot.config.workflows import load_definitions
from bot.core.ids import Ids
from bot.files.local import LocalFiles
from bot.store.opening import open_store
from bot.store.servers.embedded_server import Supervisor
from bot.tools.workflow.state_folder import FOLDER, StateFolder
from bot.workflows.export import STATE, WriteThrough
from bot.workflows.keeper import WorkflowKeeper
from bot.workflows.views import WorkflowActor
from policy.document.model import load
from policy.labels import PUBLIC, top
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm

_ROUNDS: Final = 60
_MOST: Final = 8.0
"""How much longer a checkpoint may take: it reads before it writes, and syncs the copy's and the label's folder too."""

_RECORD: Final = 200
_STEP: Final = "2"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        ours, bare = asyncio.run(_measured(Path(folder)))
    yield Row("workflow_checkpoint", ours * 1000, "ms", bare * 1000, ratio_at_most(_MOST))


async def _measured(folder: Path) -> list[float]:
    """Return the median seconds of a checkpoint, and of its reference."""
    supervisor = Supervisor(folder / "server")
    await supervisor.attach()
    store = await open_store(audit_key=bytes(32), url=supervisor.url)
    document = load({}, tools=())
    files = LocalFiles(folder, lambda: top(()))
    written = WriteThrough(store.workflows, StateFolder(files, lambda: document))
    definitions = await asyncio.to_thread(load_definitions, None, ())
    checkpoints = _Checkpoints(WorkflowKeeper(store.workflows, written, definitions))
    try:
        # The library leaves its signatures untyped.
        async with cast("Any", Redis).from_url(supervisor.url, protocol=2) as client:
            await checkpoints.next()
            text = await asyncio.to_thread((folder / "files" / FOLDER / "p1" / STATE).read_bytes)
            bare = _Bare(client, folder / "bare", text)
            await warm(checkpoints.next, bare.next, rounds=5)
            return await by_turns_async(checkpoints.next, bare.next, rounds=_ROUNDS)
    finally:
        await store.close()
        await supervisor.detach()


class _Checkpoints:
    """Checkpoints of one workflow after another."""

    def __init__(self, keeper: WorkflowKeeper) -> None:
        self._keeper, self._ids = keeper, Ids()
        self._actor = WorkflowActor("owner", "owner", PUBLIC, PUBLIC)
        self._names = cycle(keeper.definitions["seven-step"].steps[1].sub_steps)
        self._first = next(self._names)
        self._name, self._project, self._version = self._first, 0, 0

    async def next(self) -> float:
        """Write one, and return how long that took."""
        if self._version in {0, 50} or self._version > 50:
            self._project += 1
            await self._keeper.start(self._actor, f"p{self._project}", "seven-step", op=self._ids.op())
            self._version = 1
        if self._name == self._first or self._version == 1:
            while self._name != self._first:
                self._name = next(self._names)
            await self._keeper.begin_step(
                self._actor, f"p{self._project}", _STEP, self._version, op=self._ids.op(), again=True
            )
            self._version += 1
        begin = time.perf_counter()
        await self._keeper.checkpoint(
            self._actor, f"p{self._project}", self._name, self._version, op=self._ids.op(), artifacts=("a/b.md",)
        )
        taken = time.perf_counter() - begin
        self._version += 1
        self._name = next(self._names)
        return taken


class _Bare:
    """The reference: an exchange, and a file that is written beside and renamed."""

    def __init__(self, client: Any, folder: Path, text: bytes) -> None:  # noqa: ANN401 - the library is untyped
        self._client, self._folder, self._text = client, folder, text

    async def next(self) -> float:
        """Write once, and return how long that took."""
        begin = time.perf_counter()
        await self._client.rpush("bare", bytes(_RECORD))
        await asyncio.to_thread(self._write)
        return time.perf_counter() - begin

    def _write(self) -> None:
        self._folder.mkdir(exist_ok=True)
        fresh = self._folder / "fresh"
        with fresh.open("wb") as file:
            file.write(self._text)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._folder / STATE)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)
