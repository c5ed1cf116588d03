"""The audit for programs whose token is an admin's: rows, one row, and whether the chains hold.

As in a chat, a program is a reader with a label: a row above it is neither listed nor counted nor found. Names of rows
do not count them, see `bot.audit.visibility`.
"""

from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field, JsonValue

from bot.api.requests import Administering, Services
from bot.api.services import ApiServices
from bot.api.shapes import ApiOutput
from bot.audit.anchors import OUTSIDE
from bot.audit.chain import Intact
from bot.audit.visibility import VisibleRow
from bot.core.errors import NotFoundError
from bot.core.json_values import mapped_object

_MOST: Final = 200
_FEW: Final = 50


class AuditRowDocument(ApiOutput):
    """A row of the audit."""

    id: str = Field(description="`CHAIN:NAME`, as `/v1/audit/{chain}/{name}` takes it.")
    ts: int = Field(description="Milliseconds since 1970.")
    kind: str
    actor: str
    body: dict[str, JsonValue]
    label: str


class AuditRows(ApiOutput):
    """The newest rows of a chain that this program may know of, oldest first."""

    rows: tuple[AuditRowDocument, ...]


class ChainDocument(ApiOutput):
    """A chain of the audit, and whether it holds."""

    name: str
    intact: bool


class ChainList(ApiOutput):
    """The chains that were checked; `complete` tells that they are all that this program may know of."""

    chains: tuple[ChainDocument, ...]
    complete: bool


ROUTER: Final = APIRouter(tags=["audit"])
"""The routes of the audit."""


@ROUTER.get("/audit")
async def newest(
    services: Services,
    asked: Administering,
    chain: str = OUTSIDE,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _FEW,
) -> AuditRows:
    """List the newest rows of a session's chain, or of the chain for decisions outside sessions."""
    rows = await services.audit.newest(chain, limit, asked.reader)
    return AuditRows(rows=tuple(_row(services, row) for row in rows))


@ROUTER.get("/audit/verify")
async def verify(services: Services, asked: Administering) -> ChainList:
    """Check the chains that this program may know of, those that changed last."""
    checked = await services.audit.checked(asked.reader)
    chains = tuple(ChainDocument(name=one.name, intact=isinstance(one.result, Intact)) for one in checked.chains)
    return ChainList(chains=chains, complete=checked.complete)


@ROUTER.get("/audit/{chain}/{name}")
async def row(services: Services, asked: Administering, chain: str, name: str) -> AuditRowDocument:
    """Return one row in full."""
    found = await services.audit.row(f"{chain}:{name}", asked.reader)
    if found is None:
        raise NotFoundError
    return _row(services, found)


def _row(services: ApiServices, row: VisibleRow) -> AuditRowDocument:
    masked, record = services.gate.masks.masked, row.record
    return AuditRowDocument(
        id=row.id,
        ts=record.ts,
        kind=record.kind,
        actor=masked(record.actor),
        body=dict(mapped_object(record.body, masked)),
        label=str(row.label),
    )
