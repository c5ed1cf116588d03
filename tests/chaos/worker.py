"""A worker process to be killed: opens the application in a folder and serves it until it dies."""

import asyncio
import os
import sys
from pathlib import Path

from bot.app import programs
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.config.model import Config
from bot.tools import catalogue
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from channels.console import Console
from policy.labels import PUBLIC, parse
from policy.request import Effect
from tests.chaos.platform_server import PlatformChannel

SETTINGS = '{"store": {"lease_seconds": 2}}'
_PAUSE = 0.03


class StepArguments(Arguments):
    """What the step says, the label of what it reads, and how many seconds it takes."""

    say: str
    label: str = "PUBLIC"
    seconds: float = _PAUSE


class Step:
    """A call that takes a moment and reads something of the label it is told; kills hit it often."""

    name = "step"
    description = "take a step"
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = StepArguments

    def declare(self, arguments: StepArguments, context: ToolContext) -> CallFacts:
        return CallFacts()

    async def run(self, arguments: StepArguments, context: ToolContext, services: ToolServices) -> Result:
        await asyncio.sleep(arguments.seconds)
        return Result(arguments.say, parse(arguments.label))


def write_settings(folder: Path, text: str = SETTINGS) -> None:
    """Write the configuration that all processes of a folder share."""
    (folder / "config.yaml").write_text(text, encoding="utf-8")


def settings(folder: Path, url: str = "") -> Config:
    """Return the configuration all processes of a folder share; `url` is the way this one takes to the store."""
    where = {"LOCKGATE_DATA_DIR": str(folder / "data")} | ({"LOCKGATE_STORE_URL": url} if url else {})
    return load_config(folder / "config.yaml", where, (*catalogue.NAMES, Step.name))


def parts() -> Extensions:
    """Return what is put beside the built-in tools."""
    return Extensions(tools=lambda _files, _sessions: (Step(),))


async def serve(folder: Path, url: str = "") -> None:
    """Serve until killed; what is said goes to the folder's file `shown`."""
    with (folder / "shown").open("a", encoding="utf-8") as shown:
        async with open_app(settings(folder, url), [Console(shown)], {}, parts()) as app:
            await app.serve()


async def serve_platform(folder: Path, url: str, platform: Path) -> None:
    """Serve until killed; what is said goes to a platform, which is first told what this process is called."""
    channel = PlatformChannel(platform)
    async with open_app(settings(folder, url), [channel], {}, parts()) as app:
        await channel.hello(os.getpid(), app.store.process)
        await app.serve()


async def serve_programs(folder: Path, url: str, platform: Path) -> None:
    """Answer programs until killed, and send their webhooks; a platform is told what this process is called."""
    channel, began = PlatformChannel(platform), asyncio.Event()

    async def greet() -> None:
        await began.wait()
        await channel.hello(os.getpid(), app.store.process)

    async with open_app(settings(folder, url), [channel], {}, parts()) as app:
        await app.reloader.start(_untold)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(greet())
            tasks.create_task(programs.answer(app, lambda _url: began.set()))


async def _untold(_line: str) -> None:
    """Tell nobody."""


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
