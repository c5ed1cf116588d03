"""Oversight by programs: calls that wait for an approval, simulated calls, and the audit."""

from collections.abc import Mapping
from urllib.parse import quote

from pydantic import JsonValue

from lockgate.shapes import (
    ApprovalList,
    AuditEntry,
    AuditPage,
    CheckedAudit,
    GivenGrant,
    GrantList,
    LineagePage,
    SettledApprovals,
)
from lockgate.transport import ClientRequest, Query, Transport


class Approvals:
    """Calls that wait for an approval: those of this program's sessions, and those that it may answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> ApprovalList:
        """Return the calls that wait."""
        return await self._transport.value(ClientRequest("GET", "/approvals", repeatable=True), ApprovalList)

    async def approve(self, approval: str, *, grant: str | None = None) -> SettledApprovals:
        """Approve a call, with a token of the scope `admin`; repeating the same answer is allowed.

        Args:
            approval: the id of the call, or of a question for several calls.
            grant: to approve further calls, too: `conversation`, or `until` and a time such as `until 2h`.
        """
        return await self._answer(approval, "approve", grant)

    async def deny(self, approval: str) -> SettledApprovals:
        """Refuse a call, or withdraw one's own; repeating the same answer is allowed.

        Args:
            approval: the id of the call, or of a question for several calls.
        """
        return await self._answer(approval, "deny")

    async def _answer(self, approval: str, answer: str, grant: str | None = None) -> SettledApprovals:
        path = f"/approvals/{quote(approval, safe='')}"
        body: dict[str, JsonValue] = {"answer": answer} if grant is None else {"answer": answer, "grant": grant}
        ask = ClientRequest("POST", path, body=body, repeatable=True)
        return await self._transport.value(ask, SettledApprovals)


class Grants:
    """Approvals that count for further calls: those for this program's sessions, and those that it gave."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> GrantList:
        """Return the grants that cover further calls."""
        return await self._transport.value(ClientRequest("GET", "/grants", repeatable=True), GrantList)

    async def revoke(self, grant: str) -> GivenGrant:
        """Take a grant back and return it; one that is over is not found."""
        ask = ClientRequest("DELETE", f"/grants/{quote(grant, safe='')}")
        return await self._transport.value(ask, GivenGrant)


class Audit:
    """The audit, for tokens of the scope `admin`; rows above the token are not there."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def newest(self, chain: str | None = None, *, limit: int | None = None) -> AuditPage:
        """Return the newest rows of a chain, oldest first.

        Args:
            chain: the id of a session; None for the chain of decisions outside sessions.
            limit: the most rows; None for the API's default.
        """
        query: Query = {"chain": chain, "limit": limit}
        return await self._transport.value(ClientRequest("GET", "/audit", query, repeatable=True), AuditPage)

    async def row(self, row: str) -> AuditEntry:
        """Return a row by its id, `CHAIN:NAME`."""
        chain, _, name = row.rpartition(":")
        path = f"/audit/{quote(chain, safe='')}/{quote(name, safe='')}"
        return await self._transport.value(ClientRequest("GET", path, repeatable=True), AuditEntry)

    async def verify(self) -> CheckedAudit:
        """Return whether the chains hold."""
        return await self._transport.value(ClientRequest("GET", "/audit/verify", repeatable=True), CheckedAudit)

    async def trace(
        self,
        name: str,
        *,
        forward: bool = False,
        depth: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> LineagePage:
        """Return the sources of a thing, or its results; a token of any scope traces its own things.

        Args:
            name: the thing, as docs/lineage.md names them.
            forward: trace its results in place of its sources.
            depth: the most steps to follow; None for the API's limit.
            cursor: the `cursor` of the page before; None for the first page.
            limit: the most entries of the page; None for the API's default.
        """
        way = "forward" if forward else None
        query: Query = {"direction": way, "depth": depth, "cursor": cursor, "limit": limit}
        path = f"/lineage/{quote(name, safe='')}"
        return await self._transport.value(ClientRequest("GET", path, query, repeatable=True), LineagePage)


def simulation(path: str, tool: str, arguments: Mapping[str, JsonValue] | None) -> ClientRequest:
    """Return the request for a simulated call; it may be repeated."""
    body: dict[str, JsonValue] = {"tool": tool, "arguments": dict(arguments or {})}
    return ClientRequest("POST", path, body=body, repeatable=True)
