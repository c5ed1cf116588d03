"""`/doctor` for admins: what is to be mended, as this process finds it, and how, and what failed in the last hour.

What tells of the configuration has its label, and is left out where that may not be told.
"""

from typing import Final

from bot import diagnostics
from bot.commands.base import CommandContext, Reply, UsageError
from policy.labels import join_all

NOTHING: Final = "nothing is to be mended, as far as that may be told here"
OTHERS: Final = "`lockgate doctor` looks at everything, also from outside"


async def doctor(context: CommandContext, argument: str) -> Reply:
    """Tell what is to be mended, one line for each, and what is to be known all the same."""
    if argument:
        raise UsageError("")
    reader = (await context.standing(None)).reader
    told = [
        one
        for one in await context.health.look(context.gate.document.top)
        if (one.problem or one.note) and one.label.flows_to(reader)
    ]
    lines = [context.gate.masks.masked(diagnostics.line(one)) for one in told] or [NOTHING]
    return Reply("\n".join((*lines, OTHERS)), join_all(one.label for one in told))
