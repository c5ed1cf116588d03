"""`/audit` for admins: the newest rows of a chain, one in full, whether the chains hold, and lineage.

A row above the reader is neither listed nor counted nor found, see `bot.audit.visibility`.
"""

import re
from dataclasses import dataclass
from typing import Final

from bot.access import labelling
from bot.audit import rendering
from bot.audit.anchors import OUTSIDE
from bot.audit.visibility import CHECKED, VisibleRow
from bot.commands.command import CommandRequest, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.gate.gate import Gate
from bot.lineage import names
from bot.lineage import rendering as told
from bot.lineage.loading import LineageViewer
from bot.lineage.tracer import LineageQuery, LineageTracer
from bot.lineage.walk import Direction
from bot.operations.audit import AuditReader
from bot.tools.history import shortened
from policy.labels import join_all

NOTHING: Final = "There is nothing in the audit that may be told here."
OTHERS: Final = (
    "`lockgate audit verify` also checks those that may not be known here, and tells where one does not hold."
)
NEWEST: Final = f"Of the sessions that may be known here these are the {CHECKED} that changed last."

MORE: Final = "/audit trace {name} {way}"

_TRACED: Final = 30
"""Nodes of a trace that a message shows."""

_FEW: Final = 10
_MOST: Final = 50
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class AuditCommands:
    """Show the rows of the audit that the reader may see, and check its chains."""

    gate: Gate
    reader: AuditReader
    lineage: LineageTracer

    async def audit(self, request: CommandRequest, argument: str) -> Reply:
        """Show the newest rows of a chain, or one row, or check the chains."""
        match argument.split():
            case []:
                return await self._tail(request, OUTSIDE, _FEW)
            case ["tail", *words]:
                return await self._tail(request, *_asked(words))
            case ["verify"]:
                return await self._verify(request)
            case ["trace", name] if names.row_named(name):
                return await self._row(request, name)
            case ["trace", _, *_]:
                return await self._trace(request, _traced(argument.split(None, 1)[1]))
            case _:
                raise UsageError("")

    async def _tail(self, request: CommandRequest, chain: str, count: int) -> Reply:
        rows = await self.reader.newest(chain, count, (await request.standing(None)).reader)
        if not rows:
            return Reply(NOTHING)
        return Reply("\n".join(self._line(row) for row in rows), join_all(row.label for row in rows))

    async def _trace(self, request: CommandRequest, query: LineageQuery) -> Reply:
        """Show where something came from, or where it went, as far as the readers of this address may know."""
        reader = labelling.untrusted((await request.standing(None)).reader)
        lineage = await self.lineage.trace(query, LineageViewer(reader))
        shown = told.lines(lineage, MORE.format(name=query.name, way=query.direction.value))
        return Reply("\n".join(map(self._safe, shown)), lineage.label)

    async def _row(self, request: CommandRequest, name: str) -> Reply:
        row = await self.reader.row(name, (await request.standing(None)).reader)
        if row is None:
            raise NotFoundError
        lines = rendering.told(row.id, row.record, self.gate.document.digest)
        return Reply("\n".join(self._safe(line) for line in lines), row.label)

    async def _verify(self, request: CommandRequest) -> Reply:
        checked = await self.reader.checked((await request.standing(None)).reader)
        broken = [f"{chain}: tampered with" for chain in checked.broken]
        more = () if checked.complete else (NEWEST,)
        return Reply("\n".join((*broken, checked.summary, *more, OTHERS)), checked.label)

    def _line(self, row: VisibleRow) -> str:
        facts = ", ".join(filter(None, rendering.cells(row.record)))
        return f"{row.id}\n- {self._safe(facts)}"

    def _safe(self, text: str) -> str:
        """Return a line without texts that look like a secret: a model may have given a tool any name."""
        return shortened(self.gate.masks.masked(text)).replace("\n", " ")


def _traced(text: str) -> LineageQuery:
    """Return the query of a trace: a file's name may have blanks, so the direction and the page stand behind it."""
    way = re.fullmatch(r"(.+?)(?:\s+(back|forward)(?:\s+([0-9]{1,5}))?)?", text.strip())
    if way is None:
        raise UsageError("")
    name, direction, cursor = way.groups()
    return LineageQuery(name, Direction(direction or "back"), cursor=cursor or "", limit=_TRACED)


def _asked(words: list[str]) -> tuple[str, int]:
    """Return which chain is asked for, and how many of its rows."""
    *chain, last = words or [str(_FEW)]
    if not (last.isascii() and last.isdecimal()):
        chain, last = [*chain, last], str(_FEW)
    if len(chain) > 1 or len(last) > _DIGITS or not int(last):
        raise UsageError("")
    return "".join(chain) or OUTSIDE, min(int(last), _MOST)
