"""A worker process to be killed: opens the application in a folder and serves it until it dies."""

import asyncio
import sys
from pathlib import Path

from bot.app import Parts, open_app
from bot.config.load import load_config
from bot.config.model import Config
from bot.tools import catalogue
from bot.tools.base import Arguments, Declared, Result, Scene
from channels.console import Console
from policy.labels import PUBLIC, parse
from policy.request import Effect

SETTINGS = '{"store": {"lease_seconds": 2}}'
_PAUSE = 0.03


class StepArguments(Arguments):
    """What the step says, and the label of what it reads."""

    say: str
    label: str = "PUBLIC"


class Step:
    """A call that takes a moment and reads something of the label it is told; kills hit it often."""

    name = "step"
    description = "take a step"
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    arguments = StepArguments

    def declare(self, arguments: StepArguments, scene: Scene) -> Declared:  # noqa: ARG002 - the port's signature
        return Declared()

    async def run(self, arguments: StepArguments, scene: Scene) -> Result:  # noqa: ARG002 - the port's signature
        await asyncio.sleep(_PAUSE)
        return Result(arguments.say, parse(arguments.label))


def settings(folder: Path) -> Config:
    """Return the configuration all processes of a folder share."""
    path = folder / "config.yaml"
    path.write_text(SETTINGS, encoding="utf-8")
    return load_config(path, {"LOCKGATE_DATA_DIR": str(folder / "data")}, (*catalogue.NAMES, Step.name))


def parts() -> Parts:
    """Return what is put beside the built-in tools."""
    return Parts(tools=lambda _files, _sessions: (Step(),))


async def _serve(folder: Path) -> None:
    with (folder / "shown").open("a", encoding="utf-8") as shown:
        async with open_app(settings(folder), [Console(shown)], {}, parts()) as app:
            await app.serve()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
