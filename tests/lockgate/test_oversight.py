"""The client's questions, approvals, simulations, audit and copies, against a real API."""

from pathlib import Path

import pytest

from bot.sessions.api_tokens import Scope
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
