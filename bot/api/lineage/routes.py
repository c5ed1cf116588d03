"""Lineage for programs: where something came from, and where it went.

A program sees its own things, and one with an admin's token all things, as far as their label flows to it. Items above
it are one constant node, even if there are none (law `no_read_up`).
"""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from bot.access import labelling
from bot.api.requests import ApiRequest, Reading, Services
from bot.api.shapes import ApiOutput
from bot.lineage import rendering
from bot.lineage.graph import NodeKind
from bot.lineage.loading import LineageViewer
from bot.lineage.tracer import DEEPEST, LISTED, MOST_LISTED, LineageQuery
from bot.lineage.walk import Direction
from bot.sessions.api_tokens import Scope


class LineageNodeDocument(ApiOutput):
    """One thing that something came from, or that came of it."""

    id: str = Field(description="As this route takes it.")
    kind: NodeKind
    title: str
    label: str | None = Field(default=None, description="Null for the constant node that stands for hidden ones.")
    at: int | None = Field(default=None, description="Milliseconds since 1970, null where nobody knows.")
    where: str | None = Field(default=None, description="The session, address or principal where it is.")
    depth: int | None = Field(default=None, description="Over how many steps it was reached.")


class LineageEdgeDocument(ApiOutput):
    """One thing came from another."""

    source: str
    target: str


class LineageDocument(ApiOutput):
    """A page of a trace, the nearest first; `complete` tells that all was looked at that this program may know of."""

    start: tuple[str, ...]
    direction: Direction
    nodes: tuple[LineageNodeDocument, ...]
    edges: tuple[LineageEdgeDocument, ...]
    cursor: str | None = Field(description="Asks for the next page; null at the end.")
    complete: bool


ROUTER: Final = APIRouter(tags=["lineage"])
"""The routes of lineage."""


async def _query(
    lid: str,
    *,
    direction: Direction = Direction.BACK,
    depth: Annotated[int, Query(ge=1, le=DEEPEST)] = DEEPEST,
    cursor: Annotated[str, Query(max_length=16)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = LISTED,
) -> LineageQuery:
    return LineageQuery(lid, direction, depth, cursor, limit)


@ROUTER.get("/lineage/{lid:path}")
async def lineage(
    services: Services,
    asked: Reading,
    query: Annotated[LineageQuery, Depends(_query)],
) -> LineageDocument:
    """Trace something back to its sources, or `forward` to all that came of it."""
    found = await services.lineage.trace(query, _viewer(asked))
    await services.reading.traced(asked.caller.principal, ", ".join(found.start), found.label)
    return LineageDocument.model_validate(rendering.document(found))


def _viewer(asked: ApiRequest) -> LineageViewer:
    """Return a program as one who traces; as people are, it is told also what anybody may have written."""
    mine = "" if asked.caller.may(Scope.ADMIN) else asked.caller.principal
    return LineageViewer(labelling.untrusted(asked.reader), mine, program=True)
