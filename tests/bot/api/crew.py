"""Processes of one installation that serves the API, each `lockgate run` in a role of its own."""

import asyncio
import re
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.journeys.forked import inherited
from tests.journeys.nursery import ROOT

_PATIENCE: Final = 60.0
_ADDRESS: Final = re.compile(r"listening to api at (http://[0-9.:]+)")


@dataclass
class Crew:
    """Processes of one installation by name, each `lockgate run` in a role, and the addresses of those that serve."""

    folder: Path
    environment: Mapping[str, str]
    running: dict[str, Process] = field(default_factory=dict[str, Process])
    urls: dict[str, str] = field(default_factory=dict[str, str])

    async def start(self, name: str) -> None:
        """Start a process whose name begins with its role; wait until it serves where it says so."""
        told = self.folder / f"{name}.told"
        with told.open("wb") as to:
            self.running[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bot", "run", "--role", name.partition("-")[0]),
                cwd=self.folder,
                env={**inherited(), **self.environment, "PYTHONPATH": str(ROOT)},
                stdout=to,
                stderr=to,
            )
        if not name.startswith(("all", "api")):
            return
        async with asyncio.timeout(_PATIENCE):
            while (found := _ADDRESS.search(await asyncio.to_thread(told.read_text))) is None:
                assert self.running[name].returncode is None, await asyncio.to_thread(told.read_text)
                await asyncio.sleep(0.05)
        self.urls[name] = found[1]

    async def kill(self, name: str) -> None:
        """Kill a process."""
        process = self.running.pop(name)
        self.urls.pop(name, None)
        process.kill()
        await process.wait()

    async def end(self) -> None:
        """End all as an operator does."""
        for process in self.running.values():
            if process.returncode is None:
                process.terminate()
        for name, process in self.running.items():
            await process.wait()
            assert "Traceback" not in await asyncio.to_thread((self.folder / f"{name}.told").read_text)
