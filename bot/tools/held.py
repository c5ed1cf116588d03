"""`admit`: put what was held into the context, which raises the taint to its label."""

from typing import Final

from pydantic import Field

from bot.sessions.refs import HeldRef
from bot.tools.base import Arguments, CallFacts, RefusedCallError, Result, ToolContext, ToolServices
from bot.tools.references import ADMIT, UNKNOWN
from policy.labels import PUBLIC
from policy.request import Effect

NOTHING_MORE: Final = "there is nothing after that"


class AdmitArguments(Arguments):
    """Arguments of `admit`."""

    ref: str = Field(min_length=1, max_length=128, description="the id in the notice of a held result")
    after: int = Field(default=0, ge=0, description="how many of its characters you have read; the rest is returned")


class Admit:
    """Read a held item into the conversation."""

    name = ADMIT
    description = "Read what was held into this conversation. Its label then decides where you may speak."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = AdmitArguments

    def declare(self, arguments: AdmitArguments, context: ToolContext) -> CallFacts:
        """Declare what was known before the item was read, as its true label may not be told yet."""
        held = context.session.held_item(arguments.ref)
        if held is None:
            raise RefusedCallError(UNKNOWN)
        return CallFacts(result=held.floor)

    async def run(self, arguments: AdmitArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the content; what may not enter this context is as if it were not there (law `no_read_up`)."""
        held = context.session.held_item(arguments.ref)
        if held is None or not services.permits(held.label):
            return Result(UNKNOWN, failed=True)
        return Result(held.text[arguments.after :] or NOTHING_MORE, held.label, refs=(HeldRef(held.ref),))
