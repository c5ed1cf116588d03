"""`/tools`: the tools that the agent is offered here, grouped by their effect, with their labels."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.commands.command import CommandRequest, Reply, UsageError
from bot.gate.gate import Gate
from bot.gate.judge import call_facts
from bot.tools.base import CallFacts, Tool
from policy.labels import PUBLIC, Label
from policy.request import Effect

NONE: Final = "The agent has no tools here."
EACH: Final = (
    f"The least label of a tool's results is in brackets where it is not {PUBLIC}. The gate decides on each call: "
    "`/simulate TOOL` tells how."
)
ABOVE: Final = "above here"
"""The words in place of a label that may not be told here."""

_GROUPS: Final = MappingProxyType(
    {
        Effect.READ: "Reads",
        Effect.NONE: "Changes nothing outside",
        Effect.WRITE: "Writes",
        Effect.SEND: "Sends",
    }
)


@dataclass(frozen=True, slots=True)
class ToolCommands:
    """Tell what the agent may do."""

    gate: Gate

    async def tools(self, request: CommandRequest, argument: str) -> Reply:
        """List the tools that a turn of the caller's is offered here, with the least label of their results."""
        if argument:
            raise UsageError("")
        state = await request.state()
        standing = await request.standing(state)
        offered = self.gate.requests.offered(standing)
        lines = [
            f"{title}: {', '.join(self._told(tool, standing.reader) for tool in offered if tool.effect is effect)}."
            for effect, title in _GROUPS.items()
            if any(tool.effect is effect for tool in offered)
        ]
        if not lines:
            return Reply(NONE)
        return Reply("\n".join((*lines, EACH)))

    def _told(self, tool: Tool, reader: Label) -> str:
        """Return a tool's name, with the least label of its results where that is above PUBLIC."""
        least = call_facts(self.gate.document, tool, CallFacts()).result
        if least is None or least == PUBLIC:
            return tool.name
        return f"{tool.name} ({least if least.flows_to(reader) else ABOVE})"
