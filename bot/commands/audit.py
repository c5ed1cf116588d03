"""`/audit` for admins: the newest rows of a chain, one row in full, and whether the chains hold.

What is above the reader is neither listed nor counted nor found, see `bot.audit.visibility`.
"""

from typing import Final

from bot.audit import rendering
from bot.audit.anchors import OUTSIDE
from bot.audit.visibility import CHECKED, VisibleRow
from bot.commands.base import CommandContext, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.tools.history import shortened
from policy.labels import join_all

NOTHING: Final = "there is nothing in the audit that may be told here"
OTHERS: Final = (
    "`lockgate audit verify` also checks those that may not be known here, and tells where one does not hold"
)
NEWEST: Final = f"of the sessions that may be known here these are the {CHECKED} that changed last"

_FEW: Final = 10
_MOST: Final = 50
_DIGITS: Final = 4


async def audit(context: CommandContext, argument: str) -> Reply:
    """Show the newest rows of a chain, or one row, or check the chains."""
    match argument.split():
        case []:
            return await _tail(context, OUTSIDE, _FEW)
        case ["tail", *words]:
            return await _tail(context, *_asked(words))
        case ["verify"]:
            return await _verify(context)
        case ["trace", name]:
            return await _trace(context, name)
        case _:
            raise UsageError("")


def _asked(words: list[str]) -> tuple[str, int]:
    """Return which chain is asked for, and how many of its rows."""
    *chain, last = words or [str(_FEW)]
    if not (last.isascii() and last.isdecimal()):
        chain, last = [*chain, last], str(_FEW)
    if len(chain) > 1 or len(last) > _DIGITS or not int(last):
        raise UsageError("")
    return "".join(chain) or OUTSIDE, min(int(last), _MOST)


async def _tail(context: CommandContext, chain: str, count: int) -> Reply:
    found = list[VisibleRow]()
    async for told in context.trail.rows(chain, (await context.standing(None)).reader):
        found.append(told)
        if len(found) == count:
            break
    if not found:
        return Reply(NOTHING)
    lines = (_line(context, told) for told in reversed(found))
    return Reply("\n".join(lines), join_all(told.label for told in found))


async def _trace(context: CommandContext, name: str) -> Reply:
    told = await context.trail.find(name, (await context.standing(None)).reader)
    if told is None:
        raise NotFoundError
    lines = rendering.told(told.id, told.record, context.gate.document.digest)
    return Reply("\n".join(_safe(context, line) for line in lines), told.label)


async def _verify(context: CommandContext) -> Reply:
    found = await context.trail.verified((await context.standing(None)).reader)
    broken = [f"{chain}: tampered with" for chain in found.broken]
    more = () if found.complete else (NEWEST,)
    lines = (*broken, f"{found.intact} of {found.intact + len(broken)} chains intact", *more, OTHERS)
    return Reply("\n".join(lines), found.label)


def _line(context: CommandContext, told: VisibleRow) -> str:
    facts = ", ".join(filter(None, rendering.cells(told.record)))
    return f"{told.id}\n- {_safe(context, facts)}"


def _safe(context: CommandContext, text: str) -> str:
    """Return a line without what looks like a secret: what a model called a tool may be any text."""
    return shortened(context.gate.masks.masked(text)).replace("\n", " ")
