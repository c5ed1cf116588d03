"""`simulate_tool_call`: what a session may know of the gate."""

import json

from pydantic import Field, JsonValue

from bot.core.errors import BusyError
from bot.core.rate_limiter import RateLimiter
from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from policy.labels import PUBLIC
from policy.request import Effect


class SimulateArguments(Arguments):
    """Arguments of `simulate_tool_call`."""

    tool_name: str = Field(max_length=128)
    args: dict[str, JsonValue] = Field(default_factory=dict)


class SimulateToolCall:
    """Ask what the gate would decide about a call, without making it."""

    name = "simulate_tool_call"
    description = "Tell what the gate would decide about a tool call, with every rule and what can be done about it."
    effect = Effect.NONE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SimulateArguments

    def __init__(self, simulations: RateLimiter) -> None:
        self._simulations = simulations

    def declare(self, arguments: SimulateArguments, context: ToolContext) -> CallFacts:
        """Declare the caller's own taint: the answer tells what the caller could learn by trying."""
        return CallFacts(result=context.session.taint)

    async def run(self, arguments: SimulateArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the gate's report as JSON, or that it was asked too often."""
        # What another generation asked, which a reset forgot, is counted apart.
        if not self._simulations.allows(f"{context.session.sid}/{context.session.generation}"):
            return Result(str(BusyError()), context.session.taint, failed=True)
        return Result(json.dumps(await services.simulate(arguments.tool_name, arguments.args)), context.session.taint)
