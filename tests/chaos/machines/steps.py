"""A plugin for the machines of a storm: a call that takes a moment and says which machine it runs on.

Each process writes down what it is called in the store, in a file of its process id in the folder STORM_PROCESSES.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from bot.app.plugins import Plugin, ToolSetup
from bot.tools.base import Result, ToolContext, ToolServices
from tests.chaos.worker import Step, StepArguments

MACHINE: Final = "STORM_MACHINE"
PROCESSES: Final = "STORM_PROCESSES"


class MachineStep(Step):
    """A step whose result ends with the name of its machine."""

    def __init__(self, setup: ToolSetup) -> None:
        self._machine = os.environ.get(MACHINE, "")
        if folder := os.environ.get(PROCESSES):
            (Path(folder) / str(os.getpid())).write_text(setup.sessions.process, encoding="ascii")

    async def run(self, arguments: StepArguments, context: ToolContext, services: ToolServices) -> Result:
        done = await super().run(arguments, context, services)
        return replace(done, text=f"{done.text} at {self._machine}")


PLUGIN: Final = Plugin(tools=(MachineStep,))
