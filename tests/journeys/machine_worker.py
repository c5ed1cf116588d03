"""A worker of a machine of its own: `python -m tests.journeys.machine_worker FOLDER NAME`, with the store's address.

It has its own data directory, and shares the store, the keys and the bucket of config.yaml with other machines. The
tool `machine` tells which of them runs a turn.
"""

import asyncio
import io
import os
import sys
from pathlib import Path

from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.config.model import Config
from bot.tools import catalogue
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from channels.console import Console
from policy.labels import PUBLIC
from policy.request import Effect


class Nothing(Arguments):
    """No arguments."""


class Here:
    """Tells the machine."""

    name = "machine"
    description = "tell which machine this is"
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = Nothing

    def __init__(self, machine: str) -> None:
        self._machine = machine

    def declare(self, arguments: Nothing, context: ToolContext) -> CallFacts:
        return CallFacts()

    async def run(self, arguments: Nothing, context: ToolContext, services: ToolServices) -> Result:
        return Result(f"on {self._machine}")


def settings(folder: Path, name: str, url: str) -> Config:
    """Return the configuration of a machine; `url` is the store's address."""
    place = {"LOCKGATE_DATA_DIR": str(folder / name), "LOCKGATE_STORE_URL": url}
    return load_config(folder / "config.yaml", place, (*catalogue.NAMES, Here.name))


def parts(name: str) -> Extensions:
    """Return what is put beside the built-in tools."""
    return Extensions(tools=lambda _files, _sessions: (Here(name),))


async def serve(folder: Path, name: str) -> None:
    """Serve until killed."""
    async with open_app(
        settings(folder, name, os.environ["LOCKGATE_STORE_URL"]), [Console(io.StringIO())], os.environ, parts(name)
    ) as app:
        sys.stdout.write("up\n")
        sys.stdout.flush()
        await app.serve()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
