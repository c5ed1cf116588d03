"""A process as `lockgate run --role worker` is one, with tools that take a while and note when they run.

Started with a folder, its own name, and its role if that is another one. What it says goes to the file `<name>.shown`,
and each run of a tool is a line of the file `runs`.
"""

import asyncio
import os
import sys
from pathlib import Path

from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.cli.roles import ProcessRole
from bot.cli.run import until_ended
from bot.config.load import load_config
from bot.tools import catalogue
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from channels.console import Console
from policy.labels import PUBLIC
from policy.request import Effect


class WorkArguments(Arguments):
    """What is done, and how many seconds it takes the first time."""

    what: str
    seconds: float


class Work:
    """A call that takes a while; a `SEND` is one that others notice."""

    description = "do something"
    label = PUBLIC
    server = ""
    arguments = WorkArguments

    def __init__(self, folder: Path, name: str, effect: Effect) -> None:
        self.name = name
        self.effect = effect
        self.repeatable = effect is Effect.READ
        self._runs = folder / "runs"

    def declare(self, arguments: WorkArguments, context: ToolContext) -> CallFacts:
        """Say that the errand has consequences."""
        noticed = self.effect is Effect.SEND
        return CallFacts(clearance=PUBLIC if noticed else None, consequential=noticed)

    async def run(self, arguments: WorkArguments, context: ToolContext, services: ToolServices) -> Result:
        """Note that it began, take the time, and tell."""
        line = f"{self.name} {arguments.what}\n"
        again = self._runs.exists() and line in self._runs.read_text(encoding="utf-8")
        with self._runs.open("a", encoding="utf-8") as runs:
            runs.write(line)
        await asyncio.sleep(0 if again else arguments.seconds)
        return Result(f"did {arguments.what}")


def tools(folder: Path) -> Extensions:
    """Return what is put beside the built-in tools: one that reads, and one that others notice."""
    work = (Work(folder, "look", Effect.READ), Work(folder, "errand", Effect.SEND))
    return Extensions(tools=lambda _files, _sessions: work)


async def serve(folder: Path, name: str, role: ProcessRole = ProcessRole.WORKER) -> None:
    """Serve until a signal ends it."""
    known = (*catalogue.NAMES, "look", "errand")
    config = load_config(folder / "config.yaml", os.environ, known)
    with (folder / f"{name}.shown").open("a", encoding="utf-8", buffering=1) as shown:
        async with open_app(config, [Console(shown)], {}, tools(folder)) as app:
            await until_ended(app, role)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], *map(ProcessRole, sys.argv[3:])))
