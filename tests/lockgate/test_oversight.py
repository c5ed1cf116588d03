"""The client's questions, approvals, simulations, audit and copies, against a real API."""

from pathlib import Path

import pytest

from bot.sessions.api_tokens import Scope
from bot.store.schema import AUDIT
from lockgate.client import Client
from lockgate.errors import ApiError
from tests.bot.api.kit import served

pytestmark = pytest.mark.anyio


async def test_a_program_learns_who_it_is(tmp_path: Path) -> None:
    async with served(tmp_path) as host:
        token = await host.token("crane", Scope.READ, "INTERNAL")
        async with Client(host.url, token) as client:
            told = await client.whoami()
    assert (told.name, told.principal, told.scope) == ("crane", "program:crane", "read")


async def test_a_program_simulates_and_reads_the_audit_of_it(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token()) as client:
        told = await client.simulate("read_file", {"path": "confidential/pipeline.md"})
        assert told.report["verdict"] == "ALLOW"
        page = await client.audit.newest(limit=5)
        entry = page.rows[-1]
        assert entry.kind == "simulate"
        assert await client.audit.row(entry.id) == entry
        checked = await client.audit.verify()
        assert checked.chains
        assert all(chain.intact for chain in checked.chains)


async def test_a_scope_that_is_too_low_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token(scope=Scope.READ)) as client:
        with pytest.raises(ApiError) as told:
            await client.audit.verify()
        assert (told.value.status, told.value.code) == (403, "forbidden")
        assert (await client.approvals.list()).approvals == ()


async def test_a_program_traces_its_own_answer_back_and_forward(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token(scope=Scope.STEER)) as client:
        session = await client.sessions.create("hello")
        await client.sessions.result(session.id, wait=20)
        page = await client.audit.trace(session.id)
        assert [(one.kind, one.depth) for one in page.nodes] == [("answer", 0), ("message", 1), ("hidden", None)]
        (link,) = page.edges
        assert (link.source, link.target) == (page.nodes[1].id, page.nodes[0].id)
        went = await client.audit.trace(page.nodes[1].id, forward=True, depth=1, limit=1)
        assert (went.direction, [one.kind for one in went.nodes]) == ("forward", ["message", "hidden"])
        rest = await client.audit.trace(page.nodes[1].id, forward=True, cursor=went.cursor)
        assert page.start[0] in [one.id for one in rest.nodes]
        with pytest.raises(ApiError) as told:
            await client.audit.trace("file:public/none.md")
        assert told.value.code == "not_found"
        with pytest.raises(ApiError) as told:
            await client.audit.trace("yesterday")
        assert (told.value.status, told.value.code) == (400, "lineage_id")
        found = await host.app.store.audit.records(AUDIT)
        noted = [row.body["traced"] for row in found if row.kind == "read" and "traced" in row.body]
        assert noted == [page.start[0], page.nodes[1].id]
