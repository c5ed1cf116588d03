"""Processes of one installation that serves the API, each `lockgate run` in a role of its own."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.journeys.machine import Machine, Process

_ADDRESS: Final = re.compile(rb"listening to api at (http://[0-9.:]+)")


@dataclass
class Crew:
    """Processes of one installation by name, each `lockgate run` in a role, and the addresses of those that serve."""

    machine: Machine
    environment: Mapping[str, str]
    running: dict[str, Process] = field(default_factory=dict[str, Process])
    urls: dict[str, str] = field(default_factory=dict[str, str])

    async def start(self, name: str) -> None:
        """Start a process whose name begins with its role; wait until it serves where it says so."""
        role = name.partition("-")[0]
        process = await asyncio.to_thread(self.machine.start, "run", "--role", role, **self.environment)
        self.running[name] = process
        if role in {"all", "api"}:
            self.urls[name] = await asyncio.to_thread(_told, process)

    async def kill(self, name: str) -> None:
        """Kill a process."""
        process = self.running.pop(name)
        self.urls.pop(name, None)
        process.kill()
        await asyncio.to_thread(process.communicate)

    async def end(self) -> None:
        """End all as an operator does."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            told = (await asyncio.to_thread(process.communicate))[1]
            assert b"Traceback" not in told, told


def _told(process: Process) -> str:
    """Return where a process tells that it serves."""
    screen, told = process.stderr, b""
    assert screen is not None
    while (found := _ADDRESS.search(told)) is None:
        line = screen.readline()
        assert line, told
        told += line
    return found[1].decode()
