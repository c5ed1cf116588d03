"""`simulate_tool_call`: the facts about the gate's decisions that a session may know."""

import json

from pydantic import Field, JsonValue

from bot.core.errors import BusyError
from bot.rates import RateLimiter
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from policy.labels import PUBLIC
from policy.request import Effect


class SimulateArguments(Arguments):
    """Arguments of `simulate_tool_call`."""

    tool_name: str = Field(max_length=128)
    args: dict[str, JsonValue] = Field(default_factory=dict)


class SimulateToolCall:
    """Simulate a call, without making it."""

    name = "simulate_tool_call"
    description = "Tell the gate's decision about a tool call without making it, with every rule and the remedies."
    effect = Effect.NONE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SimulateArguments

    def __init__(self, simulations: RateLimiter) -> None:
        self._simulations = simulations

    def declare(self, arguments: SimulateArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: the answer tells as much as trying the call would."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: SimulateArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the gate's report as JSON, or that it was asked too often."""
        # Simulations of another generation, before a reset, are counted apart.
        if not await self._simulations.allows(f"{context.session.sid}/{context.session.generation}"):
            return Result(str(BusyError()), context.session.taint, failed=True)
        return Result(json.dumps(await services.simulate(arguments.tool_name, arguments.args)), context.session.taint)
