"""`current_time`: the store's clock, in UTC."""

from datetime import UTC, datetime

from bot.tools.base import Arguments, CallFacts, Result, ToolContext, ToolServices
from policy.labels import PUBLIC
from policy.request import Effect


class NoArguments(Arguments):
    """There are none."""


class CurrentTime:
    """Tell the time; it is public and no outsider can choose it."""

    name = "current_time"
    description = "Tell the current date and time in UTC."
    effect = Effect.NONE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = NoArguments

    def declare(self, arguments: NoArguments, context: ToolContext) -> CallFacts:
        """Declare a PUBLIC, TRUSTED result."""
        return CallFacts()

    async def run(self, arguments: NoArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the moment the call was decided."""
        return Result(datetime.fromtimestamp(context.now / 1000, UTC).isoformat(timespec="seconds"))
